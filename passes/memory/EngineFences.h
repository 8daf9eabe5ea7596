// Fences between what orders global memory and the copy engine, which has a proxy of its own.
#ifndef SECTILE_PASSES_MEMORY_ENGINEFENCES_H
#define SECTILE_PASSES_MEMORY_ENGINEFENCES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sectile {

/// Puts a fence after each operation that orders memory ahead of accesses by the copy engine. Those
/// still have their views.
void fenceEngine(mlir::func::FuncOp kernel);

} // namespace sectile

#endif
