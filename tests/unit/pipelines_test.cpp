// The pipeline as the compiler driver runs it, and its dumps.
#include "ir/Dialects.h"
#include "ir/cta/Cta.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "passes/Kernel.h"
#include "passes/Pipelines.h"
#include "passes/analysis/SharedMemory.h"
#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>

using namespace mlir;
using namespace sectile;
namespace fs = std::filesystem;

namespace {

constexpr const char *addOne = R"(
  func.func @add_one(%p: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32)
      attributes {tile.kernel, cta.warps = 4 : i32} {
    %one = arith.constant 1 : i32
    %i = tile.program_id 0
    %v = tile.make_view %p, [%n], [%one] : !tile.ptr<f32>, [i32], [i32] -> !tile.view<1xf32>
    %x = tile.load_block %v[%i] : !tile.view<1xf32>, [i32] -> tensor<1024xf32>
    %ones = arith.constant dense<1.0> : tensor<1024xf32>
    %y = arith.addf %x, %ones : tensor<1024xf32>
    tile.store_block %v[%i], %y : !tile.view<1xf32>, [i32], tensor<1024xf32>
    return
  })";

class PipelinesTest : public testing::Test {
protected:
  PipelinesTest() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    module = parseSourceString<ModuleOp>(addOne, &context);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Target target = llvm::cantFail(Target::get("sm_80"));
};

// What is in tensor memory takes no shared memory and meets nothing there.
TEST_F(PipelinesTest, BuffersAreInTheMemoryThatTheySay) {
  auto buffers = parseSourceString<ModuleOp>(R"(
#plain = #cta.layout<"4x4, shared [(0,1) (0,2) (1,0) (2,0)]">
#tile = #cta.layout<"4x4, register [(0,1) (0,2)], lane [(1,0) (2,0)], warp []">
func.func @f(%t: tensor<4x4xf32, #tile>) {
  %0 = cta.alloc %t : !cta.buffer<4x4xf32, #plain> from tensor<4x4xf32, #tile>
  %1 = cta.alloc %t : !cta.buffer<4x4xf32, #plain, tensor> from tensor<4x4xf32, #tile>
  return
})",
                                             &context);
  ASSERT_TRUE(buffers);
  std::vector<std::pair<int64_t, size_t>> found;
  buffers->walk([&](cta::AllocOp alloc) {
    found.push_back({sharedBytes(alloc), bufferAccesses(alloc).size()});
  });
  EXPECT_EQ(found, (std::vector<std::pair<int64_t, size_t>>{{64, 1}, {0, 0}}));
}

TEST_F(PipelinesTest, TileStageHasViewsAndNoLayouts) {
  ASSERT_TRUE(succeeded(runPipeline(*module, target, Stage::Tile)));
  unsigned loads = 0;
  module->walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      EXPECT_FALSE(cta::layoutOf(type));
    EXPECT_FALSE(isa<tile::LoadOp>(op));
    loads += isa<tile::LoadBlockOp>(op);
  });
  EXPECT_EQ(loads, 1u);
}

TEST_F(PipelinesTest, CtaStageHasNoViews) {
  ASSERT_TRUE(succeeded(runPipeline(*module, target)));
  unsigned loads = 0;
  module->walk([&](Operation *op) {
    EXPECT_FALSE((isa<tile::MakeViewOp, tile::LoadBlockOp, tile::StoreBlockOp>(op)));
    loads += isa<tile::LoadOp>(op);
  });
  EXPECT_EQ(loads, 1u);
}

TEST_F(PipelinesTest, ConversionsArePlannedForTheTargetsBanks) {
  module = parseSourceString<ModuleOp>(R"(
    #rows = #cta.layout<"64x64, register [(0,1) (0,2) (4,0) (8,0) (16,0) (32,0)], lane [(0,4) (0,8) (0,16) (0,32) (1,0) (2,0)]">
    #columns = #cta.layout<"64x64, register [(1,0) (2,0) (0,4) (0,8) (0,16) (0,32)], lane [(4,0) (8,0) (16,0) (32,0) (0,1) (0,2)]">
    func.func @turn(%x: tensor<64x64xf32, #rows>) attributes {cta.warps = 1 : i32} {
      %y = cta.convert_layout %x : tensor<64x64xf32, #rows> -> tensor<64x64xf32, #columns>
      return
    })",
                                       &context);
  for (auto [name, banks] : {std::pair("gfx942", 32u), std::pair("gfx950", 64u)}) {
    SCOPED_TRACE(name);
    (*module)->setAttr(cta::targetAttr, StringAttr::get(&context, name));
    module->walk([&, banks = banks](cta::ConvertLayoutOp convert) {
      const BankModel model = banksOf(convert);
      EXPECT_EQ(model.banks, banks);
      const ConversionPlan plan = planOf(convert);
      ASSERT_EQ(plan.kind, ConversionPlan::Kind::Scratch);
      const unsigned ideal =
          idealWavefronts(plan.source, 32, plan.scratch.store.vector, /*isStore=*/true, model);
      EXPECT_EQ(plan.scratch.store.idealWavefronts, ideal);
    });
  }
}

TEST_F(PipelinesTest, CtaStageGivesEveryTileALayout) {
  ASSERT_TRUE(succeeded(runPipeline(*module, target)));
  EXPECT_EQ((*module)->getAttrOfType<StringAttr>(cta::targetAttr), "sm_80");
  unsigned tiles = 0;
  module->walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (isa<RankedTensorType>(type)) {
        EXPECT_TRUE(cta::layoutOf(type));
        ++tiles;
      }
  });
  EXPECT_GT(tiles, 0u);
  auto kernel = *module->getOps<func::FuncOp>().begin();
  EXPECT_TRUE(kernel->hasAttr(cta::sharedBytesAttr));
}

TEST_F(PipelinesTest, DumpsTheModuleAfterEveryPass) {
  fs::path folder = fs::temp_directory_path() / ("sectile-dump-" + std::to_string(getpid()));
  setenv("SECTILE_DUMP", folder.c_str(), 1);
  LogicalResult done = runPipeline(*module, target, Stage::Tile);
  unsetenv("SECTILE_DUMP");
  ASSERT_TRUE(succeeded(done));
  std::vector<std::string> names;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename());
  EXPECT_THAT(names, testing::UnorderedElementsAre("add_one.sm_80.01-inline-functions.mlir",
                                                   "add_one.sm_80.02-check-offsets.mlir",
                                                   "add_one.sm_80.03-lower-debug.mlir",
                                                   "add_one.sm_80.04-simplify.mlir"));
  // A dump can be read back.
  auto last =
      parseSourceFile<ModuleOp>((folder / "add_one.sm_80.04-simplify.mlir").string(), &context);
  EXPECT_TRUE(last);
  fs::remove_all(folder);
}

TEST_F(PipelinesTest, DumpsToTheErrorStream) {
  setenv("SECTILE_DUMP", "stderr", 1);
  testing::internal::CaptureStderr();
  LogicalResult done = runPipeline(*module, target, Stage::Tile);
  llvm::errs().flush();
  std::string printed = testing::internal::GetCapturedStderr();
  unsetenv("SECTILE_DUMP");
  ASSERT_TRUE(succeeded(done));
  EXPECT_THAT(printed, testing::HasSubstr("// add_one.sm_80.04-simplify\n"));
  EXPECT_THAT(printed, testing::HasSubstr("tile.load_block"));
}

TEST_F(PipelinesTest, ADumpThatCannotBeWrittenDoesNotFailTheCompile) {
  setenv("SECTILE_DUMP", "/proc/sectile", 1);
  testing::internal::CaptureStderr();
  LogicalResult done = runPipeline(*module, target, Stage::Tile);
  llvm::errs().flush();
  std::string printed = testing::internal::GetCapturedStderr();
  unsetenv("SECTILE_DUMP");
  EXPECT_TRUE(succeeded(done));
  EXPECT_THAT(printed, testing::HasSubstr("SECTILE_DUMP: cannot write"));
}

} // namespace
