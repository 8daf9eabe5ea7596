// The search for layouts: what it costs to look at a kernel with many accesses.
#include "dsl_trace.h"
#include "ir/Dialects.h"
#include "passes/layouts/LayoutProblem.h"

namespace sc = sectile;
using namespace mlir;

namespace {

struct Stores {
  int count = 0;
  bool loads = false;
};

/// How many values the search weighs for a kernel whose stores all use the same tiles.
uint64_t weighed(Stores stores) {
  DialectRegistry registry;
  sectile::registerDialects(registry);
  testContext().appendDialectRegistry(registry);
  testContext().loadAllAvailableDialects();
  const auto kernel = [](sc::Ptr<const float> from, sc::Ptr<float> to, const Stores &s) {
    auto i = sc::arange(0, 128);
    auto x = sc::load(from + i);
    for (int j = 0; j < s.count; ++j)
      sc::store(to + (i + j * 128), s.loads ? sc::load(to + (i + j * 256)) : x + float(j));
  };
  OwningOpRef<ModuleOp> module = traceModule(kernel, &stores, {});
  const sectile::Target target = llvm::cantFail(sectile::Target::get("sm_90a"));
  auto function = *module->getOps<func::FuncOp>().begin();
  sectile::LayoutProblem problem(function, target);
  problem.solve();
  return problem.countWeighed();
}

TEST(LayoutSearch, WeighsAsManyValuesAsThereAre) {
  for (const bool loads : {false, true}) {
    const uint64_t some = weighed({100, loads}), many = weighed({400, loads});
    EXPECT_GT(some, 100u);
    EXPECT_LT(many, 5 * some) << (loads ? "loads and stores" : "stores");
  }
}

} // namespace
