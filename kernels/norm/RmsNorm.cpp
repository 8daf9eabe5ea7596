// rms_norm along the last axis, and its gradients:
//   y = h rstd (w + weight_offset), rstd = 1 / sqrt(mean of h^2 + eps), h = x or x + residual as
//   x's dtype rounds it
// (Zhang and Sennrich, arXiv 1910.07467), as torch.nn.functional.rms_norm of h. A NaN makes its row
// NaN; a negative eps is refused. The formulas of the gradients are in NormBackward.cpp.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "kernels/norm/Family.h"
#include "kernels/norm/NormBackward.h"
#include "kernels/norm/NormReferences.h"
#include "kernels/norm/RmsRows.h"

using namespace sectile;

namespace {

struct RmsNormConfig {
  int block = 1024, rows = 1, warps = 4;
  bool whole = true;  // a row fits a block
  bool added = false; // there is a residual
  bool scaled = true; // there is w
  bool moved = false; // weight_offset is added to it
};

template <class T> struct RmsNormArguments {
  View<const T, 2> x;
  View<const T, 1> w;
  View<const T, 2> residual;
  View<T, 2> y, h;
  View<float, 1> rstd;
  Float eps, weight_offset;
};

template <class T>
Kernel rmsNorm{
    "rms_norm", [](const RmsNormArguments<T> &a, const RmsNormConfig &config) {
      const int m = config.rows, n = config.block;
      const Int row = program_id(0);
      const RmsRows<T> rows{a.x, a.residual, a.h, a.rstd, a.eps, m, n, config.added, row};
      auto weightOf = [&](const Int &block) {
        return config.scaled ? a.w.tile(n).load(block) : Tile<T>();
      };
      auto write = [&](const Int &block, const Tile<float> &normal, const Tile<T> &weight) {
        if (!config.scaled) {
          a.y.tile(m, n).store(row, block, normal);
          return;
        }
        auto scale = cast<float>(weight);
        if (config.moved)
          scale += a.weight_offset;
        a.y.tile(m, n).store(row, block, normal * expand(scale, 0));
      };

      if (config.whole) {
        auto values = rows.take(0);
        auto weight = weightOf(0); // in flight while the sum is made
        write(0, values * rows.scaleOf(sum(values * values, 1)), weight);
        return;
      }
      auto rstd = rows.scaleOfLong();
      for (auto block : range(0, rows.blocks()))
        write(block, rows.again(block) * rstd, weightOf(block));
    }};

} // namespace

KernelSpec sectile::rmsNormSpec() {
  KernelSpec spec;
  spec.name = "rms_norm";
  spec.summary = "y = h * rstd * (w + weight_offset) along the last axis, with h = x or x + "
                 "residual, w where it is given";
  spec.add_arguments({{"x: [..., N] f32|f16|bf16", "any number of rows, of any length"},
                      {"w?: [N] like x", "weight"},
                      {"residual?: [..., N] like x", "added to x before"},
                      {"-> y: [..., N] like x over x, residual", "the normalised rows"},
                      {"-> h: [..., N] like x over x, residual with residual", "x + residual"},
                      {"-> rstd: [...] f32", "1/sqrt(mean of h^2 + eps) of each row"}});
  spec.add_options({{"eps: number = 1e-6 from 0 e.g. 0.01", "added to the mean of the squares"},
                    {"weight_offset: number = 0 e.g. 1", "added to w; 1 in Gemma"}});
  configureRows(spec, "N", longestWhole, elementsTogetherWithWeights);
  spec.typical = {{"...", 4096}, {"N", 1024}};
  spec.small = {{"...", 5}, {"N", 300}};
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    auto result = rmsNormReference(in[0], movedWeight(in[1], call.options.number("weight_offset")),
                                   call.has("residual") ? &in[2] : nullptr,
                                   call.options.number("eps"), arithmetic);
    return std::vector{result.y, result.h, result.rstd};
  };
  spec.apply = [](Use &use) {
    const auto config =
        use.config_as(RmsNormConfig{.whole = use.extent("N") <= use.field("block"),
                                    .added = use.has("residual"),
                                    .scaled = use.has("w"),
                                    .moved = use.call.options.number("weight_offset") != 0});
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      use(rmsNorm<T>, ceilDiv(use.extent("..."), config.rows), config);
    });
  };
  return spec;
}

KernelSpec sectile::rmsNormBackwardSpec() {
  KernelSpec spec = normBackwardSpec("rms_norm", false);
  spec.summary = "gradients of y = x * rstd * (w + weight_offset) along the last axis";
  return spec;
}
