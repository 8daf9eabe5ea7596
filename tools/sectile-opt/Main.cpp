// sectile-opt: reads IR, runs the passes named on its command line, prints IR. For tests and
// compiler debugging.
#include "ir/Dialects.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "tools/Programs.h"
#include "tools/sectile-opt/EmitLlvm.h"

int sectile::tool::sectileOptMain(int argc, char **argv) {
  if (argc > 1 && llvm::StringRef(argv[1]).starts_with("--emit-"))
    return sectile::emitLlvmMain(argc, argv);
  mlir::DialectRegistry registry;
  sectile::registerDialects(registry);
  sectile::registerSectilePasses();
  sectile::registerPipelines();
  mlir::registerTransformsPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Sectile's pass driver\n", registry));
}
