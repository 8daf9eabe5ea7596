// The order of the passes, for the compiler driver and for sectile-opt.
#ifndef SECTILE_PASSES_PIPELINES_H
#define SECTILE_PASSES_PIPELINES_H

#include "ir/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace sectile {

/// How far to go. `Tile`: simplified tile IR, for no chip in particular. `Placed`: everything in
/// shared memory has its place. `Cta`: ready for code generation.
enum class Stage { Tile, Placed, Cta };

/// Adds the passes that take a module from the language's tile IR to `last`. The module says its
/// target.
void buildPipeline(mlir::OpPassManager &manager, Stage last = Stage::Cta);

/// Runs that pipeline for `target`, which it writes into the module. SECTILE_DUMP is heeded, see
/// Dump.h. Errors go to the context's diagnostics.
mlir::LogicalResult runPipeline(mlir::ModuleOp module, const Target &target,
                                Stage last = Stage::Cta);

/// Takes a module that ran as far as `Placed` to the end.
mlir::LogicalResult finishPipeline(mlir::ModuleOp module);

/// Makes `--sectile-pipeline="stage=…"` known to tools.
void registerPipelines();

} // namespace sectile

#endif
