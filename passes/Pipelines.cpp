// The order of the passes. It is the same for every target: a pass that has nothing to do for one
// leaves its input.
#include "passes/Pipelines.h"
#include "ir/cta/Cta.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/Dump.h"
#include "passes/Passes.h"

using namespace mlir;

namespace sectile {

/// What is between a placed module and code generation.
static void addLastPasses(OpPassManager &kernel) {
  kernel.addPass(createInsertBarriers());
  kernel.addPass(createCheckChannels());
  kernel.addPass(createUnrollLoops());
}

void buildPipeline(OpPassManager &manager, Stage last) {
  manager.addPass(createInlineFunctions());
  OpPassManager &kernel = manager.nest<func::FuncOp>();
  kernel.addPass(createCheckOffsets());
  kernel.addPass(createLowerDebug());
  kernel.addPass(createSimplify());
  if (last == Stage::Tile)
    return;
  kernel.addPass(createExpandScaledDots());
  kernel.addPass(createSelectMma());
  kernel.addPass(createLoadBeforeBranches());
  kernel.addPass(createAssignLayouts());
  kernel.addPass(createSimplify());
  kernel.addPass(createExplicitChannels());
  kernel.addPass(createScheduleLoops());
  kernel.addPass(createStageOperands());
  kernel.addPass(createOverlapDots());
  kernel.addPass(createLowerChannels());
  kernel.addPass(createLowerViews());
  kernel.addPass(createSimplify());
  kernel.addPass(createPartitionWarps());
  kernel.addPass(createTakeTurns());
  kernel.addPass(createSelectVectors());
  kernel.addPass(createPlaceShared());
  if (last != Stage::Placed)
    addLastPasses(kernel);
}

LogicalResult finishPipeline(ModuleOp module) {
  PassManager manager(module.getContext());
  addLastPasses(manager.nest<func::FuncOp>());
  dumpIfAsked(manager, module);
  return manager.run(module);
}

LogicalResult runPipeline(ModuleOp module, const Target &target, Stage last) {
  MLIRContext *context = module.getContext();
  module->setAttr(cta::targetAttr, StringAttr::get(context, target.name));
  PassManager manager(context);
  buildPipeline(manager, last);
  dumpIfAsked(manager, module);
  return manager.run(module);
}

namespace {
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  Option<Stage> last{
      *this, "stage", llvm::cl::desc("how far to go"), llvm::cl::init(Stage::Cta),
      llvm::cl::values(clEnumValN(Stage::Tile, "tile", "simplified tile IR"),
                       clEnumValN(Stage::Placed, "placed", "shared memory has its places"),
                       clEnumValN(Stage::Cta, "cta", "ready for code generation"))};
};
} // namespace

void registerPipelines() {
  PassPipelineRegistration<PipelineOptions>(
      "sectile-pipeline", "from the language's tile IR to what code generation takes",
      [](OpPassManager &manager, const PipelineOptions &options) {
        buildPipeline(manager, options.last);
      });
}

} // namespace sectile
