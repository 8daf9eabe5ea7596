// attention_merge: attention over parts of the keys becomes attention over all of them:
//   lse = log(sum of e^lse_p), o = sum of e^(lse_p - lse) o_p,
// which follows from o = sum of e^(s - lse) v. A part with lse_p = -inf counts nothing, whatever it
// holds; where no part counts o is 0. D beyond 1024 is refused.
#include "kernels/attention/Options.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/references/Draw.h"
#include "kernels/serving/Family.h"
#include "kernels/serving/Merge.h"
#include "kernels/serving/References.h"
#include <cmath>

using namespace sectile;

KernelSpec sectile::attentionMergeSpec() {
  KernelSpec spec;
  spec.name = "attention_merge";
  spec.summary = "attention over P parts of the keys becomes attention over all of them";
  spec.add_arguments(
      {{"partial_o: [P, B, Hq, Sq, D] f16|bf16|f32", "attention over each part; D from 1 to 1024"},
       {"partial_lse: [P, B, Hq, Sq] f32",
        "their logarithms of sums; -inf: this part counts nothing, whatever partial_o holds",
        // As of parts of quite different weight, some of which saw nothing.
        {.sample = sampleEach([](const Invocation &, auto &random) {
           std::normal_distribution<double> normal(2, 3);
           return random() % 5 == 0 ? -INFINITY : normal(random);
         })}},
       {"-> o: [B, Hq, Sq, D] like partial_o",
        "sum of exp(partial_lse - lse) * partial_o; 0 where no part counts"},
       {"-> lse: [B, Hq, Sq] f32",
        "log of the sum of exp(partial_lse); -inf where no part counts"}});
  spec.config = {{"m", "rows of one program"}, {"warps", "warps of one program"}};
  spec.typical = {{"P", 8}, {"B", 4}, {"Hq", 32}, {"Sq", 512}, {"D", 128}};
  spec.small = {{"P", 3}, {"B", 2}, {"Hq", 2}, {"Sq", 21}, {"D", 40}};
  spec.check = [](const Invocation &call) {
    const std::int64_t d = call.extent("D");
    if (d < 1 || d > 1024)
      refuse(call, "D is ", d, ", but must be from 1 to 1024");
  };
  spec.reference = mergeReference;
  spec.defaults = [](const Invocation &call, const std::string &target) {
    // Sectors of partial_lse belong to one program each; 8 elements for each thread.
    const std::int64_t m = powerAtLeast(std::clamp<std::int64_t>(call.extent("Sq"), 1, 8)),
                       threads = m * call.extent("D") / 8,
                       warps = std::clamp<std::int64_t>(threads / warpSize(target), 1, 8);
    return Config{{"m", m}, {"warps", powerAtMost(warps)}};
  };
  spec.spaces = {
      {.axes = {{"m", {1, 2, 4, 8, 16, 32, 64}}, {"warps", {1, 2, 4, 8}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t numbers = config.at("m") * paddedWidth(call.extent("D")),
                            threads = config.at("warps") * warpSize(target);
         return numbers <= 64 * threads && numbers >= 2 * threads;
       }}};
  spec.apply = [](Use &use) {
    const auto chosen = use.config_as(MergeConfig{.width = paddedWidth(use.extent("D"))});
    const Grid grid(ceilDiv(use.extent("Sq"), chosen.m), use.extent("Hq"), use.extent("B"));
    for_dtype<half, bfloat16, float>(use.call.dtype("partial_o"), [&]<class T>(T) {
      use(mergeStates<T, T>, grid, use.tensor<T, 5>("partial_o"),
          use.tensor<float, 4>("partial_lse"), use.tensor<T, 4>("o"), use.tensor<float, 3>("lse"),
          chosen);
    });
  };
  return spec;
}
