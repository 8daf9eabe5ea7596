// How distributed tensors and shared buffers meet: vector accesses, matrix loads and stores, bank
// conflicts and swizzles, all computed from the two layouts.
#pragma once

#include "ir/layout/Layout.h"

namespace sectile {

/// Shared memory as the hardware serves it: each wavefront every bank gives one word.
struct BankModel {
  unsigned banks = 32;
  unsigned bankBytes = 4;
  unsigned maxVectorBytes = 16;
  /// Whether one instruction moves 8x8 matrices of 16-bit units to registers, or from them.
  bool matrixLoads = false, matrixStores = false;
  unsigned bytesPerWavefront() const { return banks * bankBytes; }
};

/// Bytes an element takes in memory.
inline unsigned elementBytes(unsigned elementBits) {
  return elementBits <= 8 ? 1 : elementBits / 8;
}

/// A fragment that matrix instructions read or write: 8x8 matrices of 16-bit units, whose rows of
/// 16 bytes the lanes address, eight each.
struct MatrixAccess {
  bool transposed = false;
  /// Matrices per instruction: 4, 2 or 1.
  unsigned matrices = 1;
  /// Elements in a 32-bit register.
  unsigned elementsPerWord = 1;
  /// Core registers in the order in which they are moved, so many by each instruction: ascending,
  /// but for transposed bytes. With f the first of them, lane `a` gives the instruction the offset
  /// of register f in lane 0 of its warp, xor laneOffsets[b] for every bit b of a. Lanes beyond
  /// 8 * matrices repeat.
  llvm::SmallVector<unsigned, 16> registers;
  std::array<uint32_t, 5> laneOffsets{};
  unsigned registersPerInstruction() const { return matrices * elementsPerWord; }
};

/// One way in which a fragment consists of matrices, by its elements: those of the first row, which
/// are to lie at consecutive offsets in this order, and those that begin rows 1, 2 and 4.
struct MatrixRows {
  bool transposed = false;
  llvm::SmallVector<uint32_t, 4> row;
  llvm::SmallVector<uint32_t, 3> rows;
};
/// Straight and, for elements of 16 bits and for bytes whose pairs a thread holds, transposed;
/// empty where the fragment has no such matrices. A store's fragment may hold no element twice.
llvm::SmallVector<MatrixRows, 2> matrixRows(const Layout &distributed, unsigned elementBits,
                                            bool isStore);

/// Whether matrix instructions can move this fragment from or to the buffer, and how.
std::optional<MatrixAccess> planMatrixAccess(const Layout &shared, const Layout &distributed,
                                             unsigned elementBits, bool isStore);
/// Wavefronts that one of its matrices takes: one without conflicts.
unsigned wavefrontsPerMatrix(const MatrixAccess &access, unsigned elementBits,
                             const BankModel &banks = {});

/// How the threads of a distributed layout read or write a shared buffer.
struct SharedAccess {
  /// Elements of a thread per instruction.
  unsigned vector = 1;
  /// Core registers in groups of `vector`. Of vectors, each group is in the order of its
  /// consecutive offsets; the offset of a group is its first register's,
  /// PlaceMap::compose(distributed, shared). Duplicate registers are in groups of their own when
  /// reading, and left out when writing.
  llvm::SmallVector<unsigned, 16> registers;
  /// How matrix instructions do it, where they do.
  std::optional<MatrixAccess> matrices;
  /// Wavefronts of one instruction, and the fewest that its bytes can take.
  unsigned wavefronts = 1, idealWavefronts = 1;

  unsigned numInstructions() const { return registers.size() / vector; }
  /// Wavefronts beyond the ideal, of all instructions.
  unsigned conflicts() const { return numInstructions() * (wavefronts - idealWavefronts); }
  /// Estimated cycles of a warp for all instructions.
  double cost() const;
};

/// The cheapest access: vectors up to `maxVector` elements and the bank model's bytes, or matrices
/// where the bank model has them.
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
/// What a matrix instruction on this fragment touches per matrix: eight rows of 16 bytes along
/// `dim`. Empty when the fragment has not its shape.
Simultaneous simultaneousMatrixRows(const Layout &distributed, unsigned dim, unsigned elementBits);

/// A shared layout with vectors of `vector` consecutive elements along order[0], swizzled so that
/// as many of the given spaces as possible (earlier ones first) are served without conflict. Plain
/// when that does.
Layout chooseSharedLayout(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order,
                          unsigned elementBits, unsigned vector,
                          llvm::ArrayRef<Simultaneous> accesses, const BankModel &banks = {});

/// Threads with squares of four by four elements of a matrix, which they read as vectors of one
/// buffer and write as vectors of another, whose neighbours lie along the other dimension. Lanes
/// follow each other along both dimensions at once where their vectors would else share banks.
Layout squaresLayout(const Layout &read, const Layout &written, unsigned numLanes,
                     unsigned numWarps, unsigned elementBits, const BankModel &banks = {});

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

} // namespace sectile
