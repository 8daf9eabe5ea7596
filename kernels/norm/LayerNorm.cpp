// layer_norm along the last axis, with the statistics a backward pass needs.
#include "kernels/InputError.h"
#include "kernels/Use.h"
#include "kernels/norm/Family.h"
#include "kernels/norm/Spread.h"
#include <algorithm>
#include <bit>

using namespace sectile;

namespace {

struct LayerNormConfig {
  int block = 1024, warps = 4;
  bool whole = true; // a row fits a block
};
SECTILE_CONFIG(LayerNormConfig, block, warps, whole)

// The mean is taken away before anything is squared: E[x^2] - mean^2 would lose all digits of a row
// with a large mean. A row that does not fit is read twice.
template <class T>
Kernel layerNorm{"layer_norm",
                 [](View<const T, 2> x, View<const T, 1> w, View<const T, 1> b, View<T, 2> y,
                    Ptr<float> means, Ptr<float> rstds, Float eps, const LayerNormConfig &config) {
                   auto row = program_id(0);
                   auto n = x.extent(1);
                   auto count = cast<float>(n);
                   auto from = x.at(row).tile(config.block);
                   auto to = y.at(row).tile(config.block);
                   auto weight = w.tile(config.block);
                   auto bias = b.tile(config.block);
                   // Beyond the row's end elements are 0, which must not count as a distance from
                   // the mean.
                   auto inside = [&](const auto &block) {
                     return block * config.block + arange(0, config.block) < n;
                   };
                   auto centred = [&](const auto &values, const auto &block, const Float &mean) {
                     return where(inside(block), values - mean, 0.0f);
                   };
                   auto write = [&](const auto &block, const auto &distance, const Float &rstd) {
                     to.store(block, distance * rstd * cast<float>(weight.load(block)) +
                                         cast<float>(bias.load(block)));
                   };

                   if (config.whole) {
                     auto values = cast<float>(from.load(0));
                     Float mean = sum(values, 0) / count;
                     auto distance = centred(values, Int(0), mean);
                     Float rstd = 1.0f / sqrt(sum(distance * distance, 0) / count + eps);
                     store(means + row, mean);
                     store(rstds + row, rstd);
                     write(Int(0), distance, rstd);
                     return;
                   }
                   auto blocks = cdiv(n, config.block);
                   Spread spread(zeros<float>(config.block));
                   for (auto block : range(0, blocks))
                     spread.add(cast<float>(from.load(block)), inside(block));
                   Float mean = spread.mean(count);
                   Float rstd = 1.0f / sqrt(spread.variance(count, mean) + eps);
                   store(means + row, mean);
                   store(rstds + row, rstd);
                   for (auto block : range(0, blocks))
                     write(block, centred(cast<float>(from.load(block)), block, mean), rstd);
                 }};

} // namespace

KernelSpec sectile::layerNormSpec() {
  KernelSpec spec;
  spec.name = "layer_norm";
  spec.summary = "y = (x - mean) * rstd * w + b along the last axis";
  spec.arguments = {
      {.name = "x",
       .axes = {"...", "N"},
       .dtypes = {DType::float32, DType::float16, DType::bfloat16},
       .doc = "any number of rows, of any length"},
      {.name = "w", .axes = {"N"}, .like = "x", .doc = "weight"},
      {.name = "b", .axes = {"N"}, .like = "x", .doc = "bias"},
      {.name = "y",
       .output = true,
       .axes = {"...", "N"},
       .like = "x",
       .doc = "the normalised rows"},
      {.name = "mean",
       .output = true,
       .axes = {"..."},
       .dtypes = {DType::float32},
       .doc = "of each row"},
      {.name = "rstd",
       .output = true,
       .axes = {"..."},
       .dtypes = {DType::float32},
       .doc = "1/sqrt(variance + eps) of each row, with the biased variance"},
  };
  spec.options = {{.name = "eps",
                   .kind = OptionSpec::number,
                   .initial = "1e-5",
                   .samples = {"0.01"},
                   .doc = "added to the variance"}};
  spec.config = {{"block", "elements of a row held at once"}, {"warps", "warps of one program"}};
  spec.typical = {{"...", 1024}, {"N", 1024}};
  spec.small = {{"...", 5}, {"N", 300}};
  spec.check = [](const Invocation &call) {
    if (call.options.number("eps") < 0)
      throw InputError("layer_norm: option 'eps' cannot be negative");
  };
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    auto result =
        layerNormReference(inputs[0], inputs[1], inputs[2], call.options.number("eps"), arithmetic);
    return std::vector{result.y, result.mean, result.rstd};
  };
  spec.defaults = [](const Invocation &call, const std::string &) {
    const std::int64_t block = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(call.extent("N")))), 64,
        4096);
    return Config{{"block", block}, {"warps", block <= 1024 ? 2 : block <= 2048 ? 4 : 8}};
  };
  spec.spaces = {
      {.axes = {{"block", {64, 128, 256, 512, 1024, 2048, 4096, 8192}},
                {"warps", {1, 2, 4, 8, 16}}},
       // Whole rows in up to 64 registers of a thread; no block that is mostly beyond the row's
       // end.
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t block = config.at("block"),
                            threads = config.at("warps") * warpSize(target);
         return block >= threads && block <= 64 * threads &&
                (block == 64 || block < 2 * call.extent("N"));
       }}};
  spec.apply = [](Use &use) {
    const LayerNormConfig chosen{use.field("block"), use.field("warps"),
                                 use.call.extent("N") <= use.field("block")};
    forDType<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      const auto x = use.rows<T>("x");
      use(layerNorm<T>, x.extent(0), x, use.tensor<T, 1>("w"), use.tensor<T, 1>("b"),
          use.rows<T>("y"), use.elements<float>("mean"), use.elements<float>("rstd"),
          static_cast<float>(use.call.options.number("eps")), chosen);
    });
  };
  return spec;
}
