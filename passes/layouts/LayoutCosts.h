// What operations cost under a layout, and which layouts they would like: what the assignment of
// layouts adds up and starts from.
#ifndef SECTILE_PASSES_LAYOUTS_LAYOUTCOSTS_H
#define SECTILE_PASSES_LAYOUTS_LAYOUTCOSTS_H

#include "ir/Target.h"
#include "ir/cta/Cta.h"
#include "passes/analysis/Contiguity.h"

namespace sectile {

/// Costs are estimated cycles of one warp.
class LayoutCosts {
public:
  LayoutCosts(const Target &target, mlir::func::FuncOp kernel);

  /// One execution of an operation whose tiles have this layout (a reduction's: its sources).
  double of(mlir::Operation *op, const Layout &layout) const;

  /// A conversion of a tile with elements of so many bits, which takes so much shared memory
  /// without crowding others out.
  double ofConversion(const Layout &from, const Layout &to, unsigned bits,
                      unsigned spareBytes) const;
  /// What a conversion of a value may take: in a loop with dots what their operands leave.
  unsigned spareBytesFor(mlir::Value value) const;

  /// The layouts an operation asks for, the likeliest first; none when it takes what it gets.
  llvm::SmallVector<Layout, 4> proposals(mlir::Operation *op) const;

  /// A layout for a tile of which nothing is known, for the warps that do an operation.
  Layout plain(mlir::RankedTensorType type, mlir::Operation *op) const;

  /// Whether this is the operand of a matrix instruction that a loop loads. A conversion there
  /// goes through a buffer that asynchronous copies fill iterations ahead, so that only reading it
  /// costs anything; without one the loop waits for memory.
  bool canGoAhead(mlir::OpOperand &operand) const;
  /// Whether an operand of a dot is read from where its loop's copies are, by words that lie across
  /// K. Its cost counts that read.
  bool isReadAlongK(mlir::OpOperand &operand) const;
  /// Whether this is the left operand of a matrix instruction that reads it from registers or from
  /// shared memory: from another layout it need not come back into registers. In a loop it had
  /// better be in registers, from which its dot can be in flight beside the next iteration.
  bool mayStay(mlir::OpOperand &operand) const;

private:
  unsigned mostScratch() const { return target.maxSharedBytes / 2; }

  /// `widest`: the most elements of a thread that the access moves at once, besides what the target
  /// does.
  double ofMemory(mlir::Operation *access, const Layout &layout, unsigned widest = ~0u) const;
  double ofAtomic(mlir::Operation *op, const Layout &layout) const;
  double ofReduce(tile::ReduceOp reduce, const Layout &layout) const;
  double ofScan(tile::ScanOp scan, const Layout &layout) const;
  double ofDot(cta::DotOp dot, const Layout &layout) const;
  double ofAlongK(cta::AlongKOp op, const Layout &layout) const;
  double ofBuffer(cta::BufferType buffer, const Layout &layout, bool isStore) const;
  void proposeForMemory(mlir::Operation *access, mlir::RankedTensorType tile, unsigned widest,
                        llvm::SmallVectorImpl<Layout> &proposals) const;
  void proposeForScan(tile::ScanOp scan, llvm::SmallVectorImpl<Layout> &proposals) const;
  void proposeForDot(cta::DotOp dot, llvm::SmallVectorImpl<Layout> &proposals) const;

  const Target &target;
  /// Of a loop with dots: shared memory beside what their instructions read from there themselves,
  /// with as many slots as it has stages.
  llvm::DenseMap<mlir::Operation *, unsigned> besideOperands;
  ContiguityAnalysis analysis; ///< what vectors may rely on
  ContiguityAnalysis usual;    ///< what lanes beside each other will mostly find
};

} // namespace sectile

#endif
