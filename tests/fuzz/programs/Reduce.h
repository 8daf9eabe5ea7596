// Makes a failing program smaller, for whoever has to find out why.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace sectile::fuzz {

/// The smallest program found that still fails, by taking operations away for as long as one can be
/// missed. A program that is not `alone` in its grid keeps to its own part of memory.
mlir::OwningOpRef<mlir::ModuleOp> reduce(mlir::ModuleOp program, bool alone,
                                         llvm::function_ref<bool(mlir::ModuleOp)> fails);

} // namespace sectile::fuzz
