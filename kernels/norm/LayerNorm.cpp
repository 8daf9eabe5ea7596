// layer_norm along the last axis, with the statistics a backward pass needs:
//   y = (x - mean) rstd w + b, rstd = 1 / sqrt(variance + eps), the variance biased
// (Ba, Kiros and Hinton, arXiv 1607.06450), as torch.nn.functional.layer_norm. A NaN or an infinity
// makes its row NaN; a negative eps is refused.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "kernels/norm/Family.h"
#include "kernels/norm/Spread.h"

using namespace sectile;

namespace {

struct LayerNormConfig {
  int block = 1024, rows = 1, warps = 4;
  bool whole = true;                // a row fits a block
  bool even = false;                // no block goes beyond a row's end
  bool scaled = true, moved = true; // there are w and b
};

template <class T> struct LayerNormArguments {
  View<const T, 2> x;
  View<const T, 1> w, b;
  View<T, 2> y;
  View<float, 1> mean, rstd;
  Float eps;
};

// The mean is taken away before anything is squared: E[x^2] - mean^2 would lose all digits of a row
// with a large mean. A row that does not fit is read twice.
template <class T>
Kernel layerNorm{
    "layer_norm", [](const LayerNormArguments<T> &a, const LayerNormConfig &config) {
      const auto &[x, w, b, y, means, rstds, eps] = a;
      const int m = config.rows, n = config.block;
      auto row = program_id(0);
      auto length = x.extent(1);
      auto count = cast<float>(length);
      auto from = x.tile(m, n);
      auto load = [&](const Int &block) { return cast<float>(from.load(row, block)); };
      // Beyond the row's end elements are 0, which must not count as a distance from the mean.
      auto inside = [&](const Int &block) { return expand(block * n + arange(0, n) < length, 0); };
      auto centred = [&](const Tile<float> &values, const Int &block, const Tile<float> &mean) {
        auto distance = values - expand(mean, 1);
        return config.even ? distance : where(inside(block), distance, 0.0f);
      };
      auto keep = [&](const Tile<float> &mean, const Tile<float> &variance) {
        auto rstd = 1.0f / sqrt(variance + eps);
        means.tile(m).store(row, mean);
        rstds.tile(m).store(row, rstd);
        return expand(rstd, 1);
      };
      struct Weights {
        Tile<T> scale, bias;
      };
      auto weightsOf = [&](const Int &block) {
        Weights weights;
        if (config.scaled)
          weights.scale = w.tile(n).load(block);
        if (config.moved)
          weights.bias = b.tile(n).load(block);
        return weights;
      };
      auto write = [&](const Int &block, const Tile<float> &normal, const Weights &weights) {
        auto result = normal;
        if (config.scaled)
          result *= expand(cast<float>(weights.scale), 0);
        if (config.moved)
          result += expand(cast<float>(weights.bias), 0);
        y.tile(m, n).store(row, block, result);
      };

      if (config.whole) {
        auto values = load(0);
        auto mean = sum(values, 1) / count;
        auto distance = centred(values, 0, mean);
        auto rstd = keep(mean, sum(distance * distance, 1) / count);
        // Weights come from caches; loaded earlier they would take the registers, and with them the
        // multiprocessor, of a further row.
        write(0, distance * rstd, weightsOf(0));
        return;
      }
      auto blocks = cdiv(length, n);
      auto sumOf = [](const Tile<float> &values) { return expand(sum(values, 1), 1); };
      Spread spread(sumOf, zeros<float>(m, 1));
      for (auto block : range(0, blocks))
        spread.add(load(block), inside(block), cast<float>(minimum(length - block * n, n)));
      auto mean = sum(spread.mean(), 1);
      auto rstd = keep(mean, sum(spread.variance(), 1));
      for (auto block : range(0, blocks))
        write(block, centred(load(block), block, mean) * rstd, weightsOf(block));
    }};

} // namespace

KernelSpec sectile::layerNormSpec() {
  KernelSpec spec;
  spec.name = "layer_norm";
  spec.summary = "y = (x - mean) * rstd * w + b along the last axis, w and b where they are given";
  spec.add_arguments(
      {{"x: [..., N] f32|f16|bf16", "any number of rows, of any length"},
       {"w?: [N] like x", "weight"},
       {"b?: [N] like x", "bias"},
       {"-> y: [..., N] like x over x", "the normalised rows"},
       {"-> mean: [...] f32", "of each row"},
       {"-> rstd: [...] f32", "1/sqrt(variance + eps) of each row, with the biased variance"}});
  spec.add_options({{"eps: number = 1e-5 from 0 e.g. 0.01", "added to the variance"}});
  configureRows(spec, "N", longestWhole, elementsTogetherWithWeights);
  spec.defaults = [rows = spec.defaults](const Invocation &call, const std::string &target) {
    Config config = rows(call, target);
    if (call.has("w") && call.has("b") && target.starts_with("sm_")) // not measured on others
      config["warps"] = warpsBesideOthers({config["block"], config["rows"], config["warps"]},
                                          elementCount(call.leading), call.dtype("x"), target);
    return config;
  };
  spec.typical = {{"...", 1024}, {"N", 1024}};
  spec.small = {{"...", 5}, {"N", 300}};
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    auto result =
        layerNormReference(inputs[0], inputs[1], inputs[2], call.options.number("eps"), arithmetic);
    return std::vector{result.y, result.mean, result.rstd};
  };
  spec.apply = [](Use &use) {
    const std::int64_t n = use.extent("N"), block = use.field("block");
    const auto config = use.config_as(LayerNormConfig{.whole = n <= block,
                                                      .even = n % block == 0,
                                                      .scaled = use.has("w"),
                                                      .moved = use.has("b")});
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      use(layerNorm<T>, ceilDiv(use.extent("..."), config.rows), config);
    });
  };
  return spec;
}
