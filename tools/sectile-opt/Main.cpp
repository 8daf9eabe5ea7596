// sectile-opt: reads IR, runs the passes named on its command line, prints IR. For tests and
// compiler debugging.
#include "ir/Dialects.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  sectile::registerDialects(registry);
  sectile::registerSectilePasses();
  sectile::registerPipelines();
  mlir::registerTransformsPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Sectile's pass driver\n", registry));
}
