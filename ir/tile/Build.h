// Building `tile` operations that more than one folder wants.
#ifndef SECTILE_IR_TILE_BUILD_H
#define SECTILE_IR_TILE_BUILD_H

#include "ir/tile/Tile.h"
#include "mlir/IR/Builders.h"

namespace sectile::tile {

/// A tile of rank 1 as one of rank `rank` that extends along dimension `dim`.
inline mlir::Value alongDim(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value tile,
                            unsigned dim, unsigned rank) {
  for (unsigned axis = 0; axis < rank; ++axis) {
    if (axis == dim)
      continue;
    auto type = mlir::cast<mlir::RankedTensorType>(tile.getType());
    llvm::SmallVector<int64_t> extents(type.getShape());
    extents.insert(extents.begin() + axis, 1);
    tile = ExpandDimsOp::create(builder, loc, type.clone(extents), tile, axis);
  }
  return tile;
}

} // namespace sectile::tile

#endif
