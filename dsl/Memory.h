// How memory holds values: what loads and stores through pointers and through views share.
#ifndef SECTILE_DSL_MEMORY_H
#define SECTILE_DSL_MEMORY_H

#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include <sectile/atomic.h>

namespace sectile::detail {

tile::Cache cacheOf(Access access);
tile::Eviction evictionOf(Access access);
tile::AtomicKind atomicKindOf(AtomicOp op, Kind kind);
tile::Order orderOf(Atomic how);
tile::Scope scopeOf(Atomic how);

/// Whether a tile of a view can have this shape.
void checkTileShape(std::span<const int64_t> shape, Location where);
/// Not every use of the caches is one of loads, or of stores.
void checkLoad(Access access, Location where);
void checkStore(Access access, Location where);

/// Memory holds a bool as a byte, 0 or 1; everything else as it is.
mlir::Type memoryElement(Trace &trace, Kind kind);
/// The mask in the pointers' shape, null for none; pointers grow to the mask's.
mlir::Value maskFor(Trace &trace, mlir::Location loc, mlir::Value &ptr, const Operand &mask,
                    Location where);
/// A value loaded from memory, as the kernel sees it.
mlir::Value fromMemory(Trace &trace, mlir::Location loc, Kind kind, mlir::Value value);
/// A value converted for memory of `kind`, in this shape.
mlir::Value valueForMemory(Trace &trace, mlir::Location loc, Kind kind, const Operand &value,
                           llvm::ArrayRef<int64_t> shape, llvm::StringRef what);

} // namespace sectile::detail

#endif
