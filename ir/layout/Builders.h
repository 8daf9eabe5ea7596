// The layouts that hardware and memory ask for, built as values of the one class.
#pragma once

#include "ir/layout/Layout.h"

namespace sectile {

/// Threads in a grid: each holds elementsPerThread consecutive elements, lanes are next to each
/// other, then warps, and what the tensor has beyond that repeats in registers. `order` names the
/// dimensions from the fastest. Where the tensor is smaller, lanes and warps replicate.
/// All counts are powers of two.
Layout blockedLayout(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> elementsPerThread,
                     llvm::ArrayRef<unsigned> lanesPerDim, llvm::ArrayRef<unsigned> warpsPerDim,
                     llvm::ArrayRef<unsigned> order);

/// A blocked layout for a memory access: as many elements per thread along order[0] as given, the
/// lanes and then the warps along the fastest dimension first.
Layout blockedForAccess(llvm::ArrayRef<int64_t> shape, unsigned elementsPerThread,
                        unsigned numLanes, unsigned numWarps, llvm::ArrayRef<unsigned> order);

/// How the tiles of mma instructions spread over a matrix product. Dimensions before the last two
/// are batches, of which each thread of a warp holds the same.
struct MmaTiling {
  unsigned warpsM = 1, warpsN = 1;
  /// Whether tiles repeat in registers along the rows first (else along the columns first).
  bool rowsFirst = false;
  unsigned warpsBatch = 1; ///< along the first dimension of several matrices
  unsigned beside = 1;     ///< a warp's fragments beside each other, before the next warp's
};

/// The accumulator (M x N) of instructions whose own has this fragment.
Layout mmaAccumulator(llvm::ArrayRef<int64_t> shape, const Layout &fragment, MmaTiling tiling);
/// The A operand (M x K).
Layout mmaOperandA(llvm::ArrayRef<int64_t> shape, const Layout &fragment, MmaTiling tiling);
/// The B operand (K x N).
Layout mmaOperandB(llvm::ArrayRef<int64_t> shape, const Layout &fragment, MmaTiling tiling);

/// A shared buffer whose dimensions follow each other from the fastest, order[0].
Layout sharedPlain(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order);
/// As sharedPlain, with the vectors of `vector` elements in a row of the fastest dimension
/// permuted: vector v of row r lies at v xor (r / perPhase % maxPhase).
Layout sharedSwizzled(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order,
                      unsigned vector, unsigned perPhase, unsigned maxPhase);

} // namespace sectile
