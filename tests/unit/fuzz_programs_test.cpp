// The fuzzer's random kernels: each follows from its seed, is defined in the interpreter's eyes,
// and together they have the shapes of hazards that they are there for.
#include "codegen/Compiler.h"
#include "mlir/IR/Verifier.h"
#include "tests/fuzz/programs/Run.h"
#include <gmock/gmock.h>
#include <map>

using namespace mlir;
using namespace sectile;
using namespace sectile::fuzz;

namespace {

GeneratorOptions memoryOptions(uint64_t seed) {
  GeneratorOptions options;
  options.programs = 1 + seed % 2;
  options.cluster = seed % 4 == 3 ? 2 : 1;
  options.exact = seed % 3 == 0;
  options.memory = true;
  return options;
}

OwningOpRef<ModuleOp> make(ContextLease &context, uint64_t seed) {
  return Generator(context.get(), seed, memoryOptions(seed)).make();
}

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  return text;
}

TEST(FuzzPrograms, OneSeedMakesOneProgram) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    ContextLease first, second;
    std::string text = textOf(*make(first, seed));
    EXPECT_EQ(text, textOf(*make(second, seed)));
    EXPECT_NE(text, textOf(*make(first, seed + 1)));
  }
}

TEST(FuzzPrograms, AreDefined) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    ContextLease context;
    OwningOpRef<ModuleOp> module = make(context, seed);
    ASSERT_TRUE(succeeded(verify(*module))) << seed;
    auto outputs = interpret(*module, makeInputs(context.get(), seed, memoryOptions(seed)));
    EXPECT_TRUE(bool(outputs)) << seed << ": " << llvm::toString(outputs.takeError());
  }
}

bool isPointer(Type type) { return isa<tile::PtrType>(tile::elementType(type)); }

TEST(FuzzPrograms, DrawWhatHazardsAreMadeOf) {
  std::map<std::string, unsigned> drawn;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    ContextLease context;
    OwningOpRef<ModuleOp> module = make(context, seed);
    std::map<std::string, bool> has;
    module->walk([&](Operation *op) {
      const bool inLoop = op->getParentOfType<scf::ForOp>() != nullptr;
      if (isa<tile::StoreOp, tile::StoreBlockOp>(op))
        has["store in a loop"] |= inLoop;
      if (auto store = dyn_cast<tile::StoreOp>(op))
        has["store of a scalar"] |= isa<tile::PtrType>(store.getPtr().getType());
      if (auto select = dyn_cast<arith::SelectOp>(op); select && isPointer(select.getType()))
        has[isa<tile::PtrType>(select.getType()) ? "pointer selected"
                                                 : "tile of pointers selected"] = true;
      if (auto branch = dyn_cast<scf::IfOp>(op))
        has["pointer from a branch"] |= llvm::any_of(branch.getResultTypes(), isPointer);
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        // The first two things carried change places.
        has["pointers exchanged"] |= loop.getNumResults() == 2 && isPointer(loop.getType(0)) &&
                                     loop.getYieldedValues()[0] == loop.getRegionIterArg(1);
        has["pointers that move on"] |= llvm::any_of(loop.getYieldedValues(), [](Value value) {
          return isPointer(value.getType()) && value.getDefiningOp<tile::AddPtrOp>();
        });
      }
      if (isa<tile::DotOp>(op) && inLoop)
        has["dot in a loop"] = true;
      has["assume in a loop"] |= isa<tile::AssumeOp>(op) && inLoop;
      has["hint"] |= isa<tile::HintOp>(op);
      has["barrier"] |= isa<tile::BarrierOp>(op);
      has["atomic"] |= isa<tile::AtomicRMWOp>(op);
      if (auto function = dyn_cast<func::FuncOp>(op))
        has["function of pointers"] |=
            function.isPrivate() && isPointer(function.getArgumentTypes().front());
    });
    for (auto [what, is] : has)
      drawn[what] += is;
  }
  EXPECT_EQ(drawn.size(), 13u);
  for (auto [what, times] : drawn)
    EXPECT_GE(times, 10u) << what;
}

} // namespace
