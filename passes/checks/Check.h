// What passes and code generation rely on beyond what each operation's verifier says: properties of
// a kernel as a whole, and of types that upstream's operations carry through.
#ifndef SECTILE_PASSES_CHECKS_CHECK_H
#define SECTILE_PASSES_CHECKS_CHECK_H

#include "ir/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sectile {

/// That a kernel's attributes are numbers that make sense, and that its values are scalars, views
/// and tiles of elements that we compute with, of a shape and a size that can be; that each view is
/// used where it was made, looking through loops that carry it unchanged. An error at the kernel or
/// the operation if not.
mlir::LogicalResult checkTiles(mlir::func::FuncOp kernel);

/// The same, and that no tile has a layout yet.
mlir::LogicalResult checkBare(mlir::func::FuncOp kernel);

/// The same where layouts are to be assigned: no tile comes from outside, and what earlier passes
/// replace is gone.
mlir::LogicalResult checkPlain(mlir::func::FuncOp kernel, const Target &target);

/// That partitions that compute have a power of two of warps. An error at the partition if not.
mlir::LogicalResult checkPartitions(mlir::func::FuncOp kernel);

/// That so many warps, or those of the partition that it is in, can share out every tile of a
/// function: its size, and the odd factors of its extents. An error at the operation if not.
mlir::LogicalResult checkExtents(mlir::func::FuncOp function, unsigned warps, unsigned warpSize);

/// The same once layouts are assigned: every tile has one, all are of the kernel's threads, matrix
/// instructions are the target's, and every buffer is known by name.
mlir::LogicalResult checkLayouts(mlir::func::FuncOp kernel, const Target &target);

} // namespace sectile

#endif
