// How distributed tensors and shared buffers meet: vector accesses, bank conflicts, swizzles and
// matrix loads, all computed from the two layouts.
#pragma once

#include "ir/layout/Layout.h"

namespace sectile {

/// Shared memory as the hardware serves it: each wavefront every bank gives one word.
struct BankModel {
  unsigned banks = 32;
  unsigned bankBytes = 4;
  unsigned maxVectorBytes = 16;
  unsigned bytesPerWavefront() const { return banks * bankBytes; }
};

/// Bytes an element takes in memory.
inline unsigned elementBytes(unsigned elementBits) {
  return elementBits <= 8 ? 1 : elementBits / 8;
}

/// How the threads of a distributed layout read or write a shared buffer.
struct SharedAccess {
  /// Elements per instruction.
  unsigned vector = 1;
  /// Core registers in groups of `vector`, each in the order of its consecutive offsets; the offset
  /// of a group is its first register's, PlaceMap::compose(distributed, shared). Duplicate
  /// registers are in groups of their own when reading, and left out when writing.
  llvm::SmallVector<unsigned, 16> registers;
  unsigned numInstructions() const { return registers.size() / vector; }
};

/// The widest access up to `maxVector` elements and the bank model's bytes.
SharedAccess planSharedAccess(const Layout &shared, const Layout &distributed, unsigned elementBits,
                              bool isStore, const BankModel &banks = {}, unsigned maxVector = ~0u);

/// The elements that lanes hold of those that take part in an access, by the lane's bits: of lanes
/// that hold the same, all read and one writes.
llvm::SmallVector<uint32_t, 6> accessingLanes(const Layout &distributed, bool isStore);

/// Wavefronts one instruction takes when each thread reads (or writes) `vector` consecutive
/// elements; the same for every instruction of the access, as the layouts are linear.
unsigned wavefrontsPerInstruction(const Layout &shared, const Layout &distributed,
                                  unsigned elementBits, unsigned vector, bool isStore,
                                  const BankModel &banks = {});
/// The fewest wavefronts those bytes can take.
unsigned idealWavefronts(const Layout &distributed, unsigned elementBits, unsigned vector,
                         bool isStore, const BankModel &banks = {});
/// Wavefronts beyond the ideal, per instruction.
unsigned bankConflicts(const Layout &shared, const Layout &distributed, unsigned elementBits,
                       unsigned vector, bool isStore, const BankModel &banks = {});

/// Elements that one wavefront should serve together without conflict: a space of packed
/// coordinates.
using Simultaneous = llvm::SmallVector<uint32_t, 8>;
/// What the threads of a distributed layout touch in one wavefront when each takes `vector`
/// elements along dimension `dim`. Lanes that take the same leave room for further ones.
Simultaneous simultaneousVectors(const Layout &distributed, unsigned dim, unsigned vector,
                                 unsigned elementBits, const BankModel &banks = {});
/// What a matrix load of this fragment touches per matrix: eight rows of 16 bytes along `dim`.
/// Empty when the fragment has not its shape.
Simultaneous simultaneousMatrixRows(const Layout &distributed, unsigned dim, unsigned elementBits);

/// A shared layout with vectors of `vector` consecutive elements along order[0], swizzled so that
/// as many of the given spaces as possible (earlier ones first) are served without conflict. Plain
/// when that does.
Layout chooseSharedLayout(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order,
                          unsigned elementBits, unsigned vector,
                          llvm::ArrayRef<Simultaneous> accesses, const BankModel &banks = {});

/// What differs from its neighbours in none of the bits that choose a bank.
struct Row {
  uint32_t element;
  /// What may be added to it, so that it is in another bank.
  llvm::SmallVector<uint32_t, 8> addends;
};
/// Completes a shared layout from the vector in its lowest offset bits, what should fill the banks
/// and the rest, the rows: adds to rows until the given spaces are free of conflicts.
Layout swizzledLayout(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<uint32_t> vector,
                      llvm::ArrayRef<uint32_t> bank, llvm::ArrayRef<Row> rows,
                      llvm::ArrayRef<Simultaneous> accesses);

/// A fragment read (or written) by matrix instructions: 8x8 matrices of 16-bit units whose rows of
/// 16 bytes the lanes address, eight each.
struct MatrixLoadPlan {
  bool transposed = false;
  /// Matrices per instruction: 4, 2 or 1.
  unsigned matrices = 1;
  /// Elements in a 32-bit register.
  unsigned elementsPerWord = 1;
  /// Instruction i moves registersPerInstruction() registers in order, starting at the core
  /// register f = i * registersPerInstruction(). Lane `a` gives it the offset of register f in lane
  /// 0 of its warp, xor laneOffsets[b] for every bit b of a. Lanes beyond 8 * matrices repeat.
  std::array<uint32_t, 5> laneOffsets{};
  unsigned registersPerInstruction() const { return matrices * elementsPerWord; }
};

/// Whether matrix instructions can move this fragment from or to the buffer, and how.
std::optional<MatrixLoadPlan> planMatrixLoad(const Layout &shared, const Layout &distributed,
                                             unsigned elementBits);
/// Wavefronts that one of its matrices takes: one without conflicts.
unsigned wavefrontsPerMatrix(const MatrixLoadPlan &plan, unsigned elementBits,
                             const BankModel &banks = {});

} // namespace sectile
