// The `tile` dialect's types and operations.
#ifndef SECTILE_IR_TILE_TILE_H
#define SECTILE_IR_TILE_TILE_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "ir/tile/TileDialect.h.inc"
#include "ir/tile/TileEnums.h.inc"

namespace sectile::tile {
/// A resource of effects. Its name is const for LLVM 23 and is not for LLVM 22: one of the two
/// overrides.
template <typename Resource> struct NamedResource : mlir::SideEffects::Resource::Base<Resource> {
  llvm::StringRef getName() { return Resource::name; }
  llvm::StringRef getName() const { return Resource::name; }
};
/// What assertions, prints and assumptions write, apart from all memory.
struct DebugResource : NamedResource<DebugResource> {
  static constexpr llvm::StringLiteral name = "tile.debug";
};
/// What operations on channels and on dots in flight read and write: it keeps them in order.
struct ChannelMemory : NamedResource<ChannelMemory> {
  static constexpr llvm::StringLiteral name = "tile.channel";
};
} // namespace sectile::tile

#define GET_TYPEDEF_CLASSES
#include "ir/tile/TileTypes.h.inc"
#define GET_OP_CLASSES
#include "ir/tile/TileOps.h.inc"

namespace sectile::tile {

/// Marks a `func.func` as a kernel.
inline constexpr llvm::StringLiteral kernelAttr = "tile.kernel";
/// On a kernel: how many programs along the grid's first axis run side by side and may share what
/// they load, i32.
inline constexpr llvm::StringLiteral clusterAttr = "tile.cluster";
/// On a kernel's argument: its value (an address in bytes for pointers) is a multiple of this i64.
inline constexpr llvm::StringLiteral divisibleAttr = "tile.divisible";
/// On a kernel's integer argument: its value is from zero to less than this i64.
inline constexpr llvm::StringLiteral belowAttr = "tile.below";
/// Of the address of a view whose elements have different addresses: array<i64> of its strides, 0
/// where they are arguments. Its extents and strides are the arguments that follow.
inline constexpr llvm::StringLiteral distinctAttr = "tile.distinct";

/// On a dot: its sums are in flight until a `tile.dot_wait`.
inline constexpr llvm::StringLiteral inFlightAttr = "tile.in_flight";

/// The element type of a tile, or a scalar's own type.
inline mlir::Type elementType(mlir::Type type) { return mlir::getElementTypeOrSelf(type); }
/// `type` with another element type; scalars become that type.
mlir::Type withElementType(mlir::Type type, mlir::Type element);
/// The shape of a tile; empty for scalars.
llvm::ArrayRef<int64_t> shapeOf(mlir::Type type);
/// A shape as messages write it: `[128, 64]`.
std::string shapeText(llvm::ArrayRef<int64_t> shape);

} // namespace sectile::tile

#endif
