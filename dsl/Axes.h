// Axes of tiles as the language's operations take them.
#ifndef SECTILE_DSL_AXES_H
#define SECTILE_DSL_AXES_H

#include "dsl/Trace.h"

namespace sectile::detail {

/// The axis counted from 0; `what` begins the message when the tile has no such axis.
unsigned axisOf(const Extent &axis, llvm::ArrayRef<int64_t> shape, llvm::StringRef what);

/// 0, 1, … along an axis, as an i32 tile of the shape.
mlir::Value positionsAlong(Trace &trace, mlir::Location loc, llvm::ArrayRef<int64_t> shape,
                           unsigned axis);

/// The one element of a tile of shape [1].
mlir::Value onlyElement(Trace &trace, mlir::Location loc, mlir::Value tile);

} // namespace sectile::detail

#endif
