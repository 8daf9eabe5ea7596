// What the verifiers of the `tile` operations have in common.
#ifndef SECTILE_IR_TILE_VERIFY_H
#define SECTILE_IR_TILE_VERIFY_H

#include "ir/tile/Tile.h"

namespace sectile::tile {

/// Whether two types have the same shape and encoding, whatever their elements.
mlir::LogicalResult sameTile(mlir::Operation *op, mlir::Type a, mlir::Type b, llvm::StringRef what);
/// That the `vector` of a memory access, where it is set, is a number of elements that can go at
/// once.
mlir::LogicalResult verifyVector(mlir::Operation *op, std::optional<uint32_t> vector);
/// That a block is a function of one element of each of the operation's operands, for one of each
/// of its results. `what`: what it is to the operation.
mlir::LogicalResult verifyFunction(mlir::Operation *op, mlir::Block &body, llvm::StringRef what);
/// What a load through a pointer, or through a tile of them, gives.
mlir::Type pointee(mlir::Type ptr);

} // namespace sectile::tile

#endif
