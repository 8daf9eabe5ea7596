// Operands of dots that are read from shared memory: where they come from, and by whom they are
// read.
#ifndef SECTILE_PASSES_LAYOUTS_DOTOPERANDS_H
#define SECTILE_PASSES_LAYOUTS_DOTOPERANDS_H

#include "passes/layouts/ChooseBuffer.h"
#include "llvm/ADT/MapVector.h"

namespace sectile {

/// An operand that is to read a buffer instead of a tile: axis i of it is axis order[i] of the
/// buffer.
struct BufferUse {
  mlir::OpOperand *operand;
  llvm::SmallVector<int32_t, 2> order;
};
/// Lets the operand read `buffer`, through a permute_buffer where the axes differ.
void readBuffer(mlir::OpBuilder &builder, const BufferUse &use, mlir::Value buffer);

/// Where an operand comes from, conversions and permutes aside: its axis i is axis order[i] of the
/// root.
struct OperandOrigin {
  mlir::Value root;
  llvm::SmallVector<int32_t, 2> order;
};
OperandOrigin originOfOperand(mlir::Value operand);

/// Where an operand of a dot lies across K in memory and was read along K; null elsewhere.
cta::AlongKOp alongKOf(mlir::Value operand);

/// A tile that dots read from shared memory.
struct SharedTile : BufferReaders {
  llvm::SmallVector<BufferUse, 2> uses;

  /// Has a dot read it: operand `number`, whose axes come from the tile's in this order.
  void addUse(cta::DotOp dot, unsigned number, llvm::ArrayRef<int32_t> order, const Target &target);
};

/// What uses a tile otherwise than to hand it to `uses`, converted or not.
llvm::SmallVector<mlir::Operation *> otherUsersOf(mlir::Value tile, llvm::ArrayRef<BufferUse> uses);

/// By the tiles that they are of.
using SharedTiles = llvm::MapVector<mlir::Value, SharedTile>;

} // namespace sectile

#endif
