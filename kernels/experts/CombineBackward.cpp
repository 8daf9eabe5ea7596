// moe_combine_backward: the gradients of moe_combine's parts and weights,
//   dparts[i] = weights[t, j] dy[t] for the choice (t, j) whose place is i, else 0;
//   dweights[t, j] = sum over columns of dy[t] parts[inverse[t, j]], 0 for a choice left out.
// Each row is the place of one choice at most: which one is found first, so that rows are gathered,
// and written once.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "kernels/experts/Family.h"
#include "kernels/experts/Places.h"
#include "kernels/experts/References.h"
#include "kernels/references/Sample.h"
#include <algorithm>

using namespace sectile;

namespace {

struct CombineBackwardConfig {
  int rows = 4, block = 512, warps = 4;
  bool weights = true;
};

template <class T> struct CombineBackwardArguments {
  View<const T, 2> parts;
  View<const std::int32_t, 2> inverse;
  View<const float, 2> weights;
  View<const T, 2> dy;
  View<std::int32_t, 1> order;
  View<T, 2> dparts;
  View<float, 2> dweights;
};

struct NoChoiceArguments {
  View<std::int32_t, 1> order;
};

Kernel noChoice{"moe_no_choice", [](const NoChoiceArguments &a) {
                  a.order.tile(1024).store(program_id(0), full<std::int32_t>(-1, 1024));
                }};

// Of each token: which rows are its choices', and the gradients of their weights.
template <class T>
Kernel ofTokens{"moe_combine_dweights",
                [](const CombineBackwardArguments<T> &a, const CombineBackwardConfig &config) {
                  const int m = config.rows, n = config.block;
                  const Int row = program_id(0), each = a.inverse.extent(1),
                            token = row * m + arange(0, m);
                  const auto isThere = token < a.inverse.extent(0);
                  const auto at = [&](const auto &view, const Int &j) {
                    return view.ptr() + cast<std::int64_t>(token) * view.stride(0) +
                           cast<std::int64_t>(j) * view.stride(1);
                  };
                  for (auto j : range(0, each)) {
                    const auto place = load(at(a.inverse, j), isThere, -1);
                    store(a.order.ptr() + cast<std::int64_t>(place),
                          cast<std::int32_t>(token * each + j), place >= 0);
                    if (!config.weights)
                      continue;
                    auto sums = zeros<float>(m, n);
                    for (auto block : range(0, cdiv(a.dy.extent(1), n)))
                      sums += cast<float>(a.parts.tile(m, n).gather(place, block)) *
                              cast<float>(a.dy.tile(m, n).load(row, block));
                    store(at(a.dweights, j), where(place >= 0, sum(sums, 1), 0.0f), isThere);
                  }
                }};

template <class T>
Kernel ofParts{
    "moe_combine_dparts",
    [](const CombineBackwardArguments<T> &a, const CombineBackwardConfig &config) {
      const int m = config.rows, n = config.block;
      const Int row = program_id(0), column = program_id(1), each = maximum(a.inverse.extent(1), 1);
      const auto choice = cast<Index>(a.order.tile(m).padding(-1).load(row));
      const auto isChosen = choice >= 0;
      auto result = cast<float>(a.dy.tile(m, n).gather(where(isChosen, choice / each, -1), column));
      if (config.weights)
        result = result * expand(load(a.weights.ptr() +
                                          cast<std::int64_t>(choice / each) * a.weights.stride(0) +
                                          cast<std::int64_t>(choice % each) * a.weights.stride(1),
                                      isChosen, 0.0f),
                                 1);
      a.dparts.tile(m, n).store(row, column, result);
    }};

} // namespace

KernelSpec sectile::moeCombineBackwardSpec() {
  KernelSpec spec;
  spec.name = "moe_combine_backward";
  spec.summary = "gradients of moe_combine's rows and weights";
  spec.add_arguments(
      {{"parts: [M, N] f16|bf16|f32", "as moe_combine has them"},
       {"inverse: [T, C] i32",
        "the row of each token's choice, of one alone; -1 where it is left out",
        {.sample = samplePlaces}},
       {"weights?: [T, C] f32", "of the choices; 1 if not given", {.sample = sampleUniform(0, 1)}},
       {"dy: [T, N] like parts", "gradient of y"}});
  spec.add_gradients({"parts", "weights"});
  spec.config = {{"rows", "rows of one program"},
                 {"block", "columns of one program"},
                 {"warps", "warps of one program"}};
  spec.typical = {{"T", 16384}, {"C", 8}, {"M", 131072}, {"N", 2048}};
  spec.small = {{"T", 20}, {"C", 3}, {"M", 60}, {"N", 40}};
  spec.check = [](const Invocation &call) {
    if (call.extent("T") * call.extent("C") >= std::int64_t(1) << 30)
      refuse(call, "there are ", call.extent("T") * call.extent("C"),
             " choices, but there must be fewer than 2^30");
  };
  spec.contents = [](const Invocation &call, std::span<const HostArray> inputs) {
    checkPlaces(call, inputs, "inverse", call.extent("M"));
    checkDistinct(call, inputs, "inverse");
  };
  spec.reference = moeCombineBackwardReference;
  spec.factor = 3;
  spec.batch = {"T", "M"};
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const RowBlocks blocks =
        rowBlocksFor(call.extent("M"), call.extent("N"), 2048, call.dtype("parts"), target);
    return Config{{"rows", blocks.rows}, {"block", blocks.block}, {"warps", blocks.warps}};
  };
  spec.spaces = {{.part = "moe_combine_dparts",
                  .axes = {{"rows", {1, 2, 4, 8}},
                           {"block", {128, 256, 512, 1024, 2048}},
                           {"warps", {1, 2, 4, 8}}},
                  .where = tilesWithin({"rows", "block"}, 4, 32, {{"block", 128, "N"}})}};
  spec.apply = [](Use &use) {
    auto config = use.config_as<CombineBackwardConfig>();
    const std::int64_t m = use.extent("M");
    const auto order = use.workspace<std::int32_t, 1>({m});
    use(noChoice, ceilDiv(m, 1024), {{"order", order}});
    const auto dweights =
        use.has("weights") ? use.tensor<float, 2>("dweights") : noTensor<float, 2>();
    for_dtype<half, bfloat16, float>(use.call.dtype("parts"), [&]<class T>(T) {
      use(ofTokens<T>, ceilDiv(use.extent("T"), config.rows), config,
          {{"order", order}, {"dweights", dweights}});
      use(ofParts<T>, Grid(ceilDiv(m, config.rows), ceilDiv(use.extent("N"), config.block)), config,
          {{"order", order}, {"dweights", dweights}});
    });
  };
  return spec;
}
