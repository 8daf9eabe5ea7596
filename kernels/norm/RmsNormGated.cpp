// rms_norm_gated along the last axis: an RMS norm and a gate of another array, as layers of linear
// attention end (norm_before_gate) and Mamba-2's (else):
//   y = x rstd w a(z), rstd = 1 / sqrt(mean of x^2 + eps), or
//   y = u rstd w, u = x a(z), rstd = 1 / sqrt(mean of u^2 + eps), a = silu or sigmoid,
// in f32, rounded once. A NaN makes its row NaN, one in z with norm_before_gate its element; a
// negative eps is refused. RmsNormGatedBackward.cpp has the gradients.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "kernels/norm/Family.h"
#include "kernels/norm/Gate.h"
#include "kernels/norm/NormReferences.h"

using namespace sectile;
using namespace sectile::gated;

namespace {

struct RmsNormGatedConfig {
  int block = 1024, rows = 1, warps = 4;
  bool whole = true;     // a row fits a block
  bool w = true;         // given
  bool silu = true;      // else sigmoid
  bool normFirst = true; // else the gate
};

template <class T> struct RmsNormGatedArguments {
  View<const T, 2> x, z;
  View<const T, 1> w;
  View<T, 2> y;
  View<float, 1> rstd;
  Float eps;
};

template <class T>
Kernel rmsNormGated{
    "rms_norm_gated", [](const RmsNormGatedArguments<T> &a, const RmsNormGatedConfig &config) {
      const int m = config.rows, n = config.block;
      const Int row = program_id(0);
      const auto load = [&](const View<const T, 2> &from, const Int &block) {
        return cast<float>(from.tile(m, n).load(row, block));
      };
      // What is normalised.
      const auto normed = [&](const Tile<float> &x, const Tile<float> &z) {
        return config.normFirst ? x : x * gateOf(z, config.silu);
      };
      const auto scaleOf = [&](const Tile<float> &squares) {
        const auto rstd = 1.0f / sqrt(sum(squares, 1) / cast<float>(a.x.extent(1)) + a.eps);
        a.rstd.tile(m).store(row, rstd);
        return expand(rstd, 1);
      };
      const auto write = [&](const Int &block, const Tile<float> &values, const Tile<float> &z,
                             const Tile<float> &rstd) {
        auto result = values * rstd;
        if (config.w)
          result = result * expand(cast<float>(a.w.tile(n).load(block)), 0);
        if (config.normFirst)
          result = result * gateOf(z, config.silu);
        a.y.tile(m, n).store(row, block, result);
      };

      if (config.whole) {
        const auto x = load(a.x, 0), z = load(a.z, 0);
        const auto values = normed(x, z);
        write(0, values, z, scaleOf(values * values));
        return;
      }
      const Int blocks = cdiv(a.x.extent(1), n);
      auto squares = zeros<float>(m, n);
      for (auto block : range(0, blocks)) {
        auto values = load(a.x, block);
        if (!config.normFirst)
          values = normed(values, load(a.z, block));
        squares += values * values;
      }
      const auto rstd = scaleOf(squares);
      for (auto block : range(0, blocks)) {
        const auto x = load(a.x, block), z = load(a.z, block);
        write(block, normed(x, z), z, rstd);
      }
    }};

} // namespace

KernelSpec sectile::rmsNormGatedSpec() {
  KernelSpec spec;
  spec.name = "rms_norm_gated";
  spec.summary =
      "rms_norm of x times silu or sigmoid of z, or of that product, along the last axis";
  spec.add_arguments({{"x: [..., N] f32|f16|bf16", "any number of rows, of any length"},
                      {"z: [..., N] like x", "what the gate is made of"},
                      {"w?: [N] like x", "weight"},
                      {"-> y: [..., N] like x over x, z", "normalised and gated"},
                      {"-> rstd: [...] f32", "1/sqrt(mean of squares + eps) of each row"}});
  spec.add_options({{"eps: number = 1e-6 from 0 e.g. 0.01", "added to the mean of the squares"}});
  spec.add_options(gateOptions());
  configureRows(spec, "N", 8192, elementsTogetherWithWeights);
  spec.typical = {{"...", 65536}, {"N", 128}};
  spec.small = {{"...", 5}, {"N", 300}};
  spec.reference = rmsNormGatedReference;
  spec.apply = [](Use &use) {
    const auto config =
        use.config_as(RmsNormGatedConfig{.whole = use.extent("N") <= use.field("block"),
                                         .w = use.has("w"),
                                         .silu = isSilu(use.call),
                                         .normFirst = isNormFirst(use.call)});
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      use(rmsNormGated<T>, ceilDiv(use.extent("..."), config.rows), config);
    });
  };
  return spec;
}
