// Operands of matrix instructions, as the words that those take.
#ifndef SECTILE_CODEGEN_COMMON_FRAGMENTS_H
#define SECTILE_CODEGEN_COMMON_FRAGMENTS_H

#include "codegen/common/SharedTile.h"

namespace sectile {

/// How f32 operands go to a matrix instruction: as numbers of fewer bits, and which of those are
/// multiplied.
struct SplitPrecision {
  /// Parts of a number x. The first is x rounded; the others are those of finite numbers and zero
  /// elsewhere, so that only the product of the first parts can be infinite or NaN: the first once
  /// more, then what rounding left over, rounded, and so on.
  enum Part : unsigned { Whole, First, Second, Third };

  MmaElement element;
  unsigned parts;                                 ///< how many numbers make one
  llvm::ArrayRef<std::pair<Part, Part>> products; ///< of A and B, the smallest first

  static SplitPrecision of(tile::Precision precision);
};

/// Registers of an operand as words of a matrix instruction, from a tile in registers or read from
/// a buffer when they are first asked for.
class Fragments {
public:
  /// `layout` and `split` outlive it; the latter is that of f32 operands, else nullptr. `moving`
  /// goes to a buffer's addresses, see SharedPlaces.
  Fragments(KernelEmitter &emitter, mlir::Value operand, const Layout &layout,
            const SplitPrecision *split, ThreadPart moving = {});

  /// The `count` registers of the instruction's tile at these coordinates, which are consecutive.
  llvm::SmallVector<llvm::Value *, 4> at(llvm::ArrayRef<int64_t> place, unsigned count,
                                         SplitPrecision::Part part = SplitPrecision::Whole);

  /// Whether the operand is a tile in registers.
  bool isInRegisters() const { return !reader; }
  /// What a loop over the inner dimension carries of such a tile: its words, or its numbers where
  /// these are split.
  Registers carried();
  /// Has the loop's values take the place of the tile's.
  void setCarried(llvm::ArrayRef<llvm::Value *> now);
  /// Those that are `length` further along the inner dimension `dim`; at the end any.
  Registers movedOn(llvm::ArrayRef<llvm::Value *> now, unsigned dim, int64_t length) const;

private:
  using Parts = std::array<llvm::Value *, 4>;

  llvm::Value *word(unsigned reg);
  const Parts &splitWord(unsigned reg);
  Parts partsOf(llvm::Value *number);
  llvm::Value *number(unsigned reg);

  KernelEmitter &emitter;
  const Layout &layout;
  LayoutInverse inverse;
  const SplitPrecision *split;
  unsigned perWord;
  std::optional<SharedReader> reader;
  Registers values;
  llvm::SmallVector<llvm::Value *, 0> words;
  std::vector<Parts> splitWords;
};

} // namespace sectile

#endif
