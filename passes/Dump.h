// IR after every pass, for people who debug the compiler.
#ifndef SECTILE_PASSES_DUMP_H
#define SECTILE_PASSES_DUMP_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace sectile {

/// Heeds the environment variable SECTILE_DUMP: `stderr` prints the module after every pass;
/// anything else is a folder that gets one file per pass, `KERNEL.TARGET.NN-PASS.mlir`, each of
/// which sectile-opt reads.
void dumpIfAsked(mlir::PassManager &manager, mlir::ModuleOp module);

} // namespace sectile

#endif
