// dx, dz and dw of rms_norm_gated. With n the normalised numbers, g = w dy a(z), or w dy where the
// gate came first, and dh = rstd (g - n mean(g n)):
//   dx = dh, dz = dy n w a'(z), dw = sum of dy a(z) n over the rows, or
//   dx = dh a(z), dz = dh x a'(z), dw = sum of dy n.
// That rstd belongs to x and z is not checked. Programs and sums as in NormBackward.cpp.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/norm/Family.h"
#include "kernels/norm/Gate.h"
#include "kernels/norm/NormBackward.h"
#include "kernels/norm/SumRows.h"
#include "kernels/references/Sample.h"

using namespace sectile;
using namespace sectile::gated;

namespace {

struct GatedBackwardConfig {
  int block = 1024, rows = 1, warps = 4;
  bool whole = true; // a row fits a block; else its mean is known from a launch before
  bool w = true;     // given, and dw is wanted
  bool silu = true, normFirst = true;
};

template <class T> struct GatedBackwardArguments {
  View<const T, 2> x, z;
  View<const T, 1> w;
  View<const float, 1> rstd;
  View<const T, 2> dy;
  View<float, 1> means; // of g n, of each row
  View<T, 2> dx, dz;
  View<float, 2> dw;
};

// Of a block of rows, [rows, block]; 0 beyond a row's end and the last row.
struct GatedBlock {
  Tile<float> x, z, dy, gate, normal;
  Tile<float> own, inner; // gradients of n w, and of n
};

template <class T>
GatedBlock blockOf(const GatedBackwardArguments<T> &a, const Int &row, const Int &column,
                   const Tile<float> &rstd, const GatedBackwardConfig &config) {
  const auto load = [&](const View<const T, 2> &from) {
    return cast<float>(from.tile(config.rows, config.block).load(row, column));
  };
  GatedBlock b;
  b.x = load(a.x);
  b.z = load(a.z);
  b.dy = load(a.dy);
  b.gate = gateOf(b.z, config.silu);
  b.normal = (config.normFirst ? b.x : b.x * b.gate) * rstd;
  b.own = config.normFirst ? b.dy * b.gate : b.dy;
  b.inner = b.own;
  if (config.w)
    b.inner = b.own * expand(cast<float>(a.w.tile(config.block).load(column)), 0);
  return b;
}

template <class T>
Kernel gatedBackward{
    "rms_norm_gated_backward",
    [](const GatedBackwardArguments<T> &a, const GatedBackwardConfig &config) {
      const int m = config.rows, n = config.block;
      const Int column = program_id(0), program = program_id(1);
      auto weightSum = zeros<float>(m, n);
      for (auto row : range(program, cdiv(a.x.extent(0), m), num_programs(1))) {
        const auto rstd = expand(a.rstd.tile(m).load(row), 1);
        const auto b = blockOf(a, row, column, rstd, config);
        if (config.w)
          weightSum += b.own * b.normal;
        const auto along = config.whole ? sum(b.inner * b.normal, 1) / cast<float>(a.x.extent(1))
                                        : a.means.tile(m).load(row);
        const auto dh = (b.inner - b.normal * expand(along, 1)) * rstd;
        auto dz = (config.normFirst ? b.dy * b.normal : dh * b.x) * gateSlope(b.z, config.silu);
        if (config.normFirst && config.w)
          dz = dz * expand(cast<float>(a.w.tile(n).load(column)), 0);
        a.dx.tile(m, n).store(row, column, config.normFirst ? dh : dh * b.gate);
        a.dz.tile(m, n).store(row, column, dz);
      }
      if (config.w)
        a.dw.at(program).tile(n).store(column, sum(weightSum, 0));
    }};

// Of rows beyond a block.
template <class T>
Kernel gatedMeans{"rms_norm_gated_means",
                  [](const GatedBackwardArguments<T> &a, const GatedBackwardConfig &config) {
                    const Int row = program_id(0);
                    const auto rstd = expand(a.rstd.tile(1).load(row), 1);
                    auto along = zeros<float>(1, config.block);
                    for (auto column : range(0, cdiv(a.x.extent(1), config.block))) {
                      const auto b = blockOf(a, row, column, rstd, config);
                      along += b.inner * b.normal;
                    }
                    a.means.tile(1).store(row, sum(along, 1) / cast<float>(a.x.extent(1)));
                  }};

} // namespace

KernelSpec sectile::rmsNormGatedBackwardSpec() {
  KernelSpec spec;
  spec.name = "rms_norm_gated_backward";
  spec.summary = "gradients of rms_norm_gated";
  spec.add_arguments({{"x: [..., N] f32|f16|bf16", "as in rms_norm_gated"},
                      {"z: [..., N] like x", "as in rms_norm_gated"},
                      {"w?: [N] like x", "weight"},
                      {"rstd: [...] f32", "from rms_norm_gated", {.sample = sampleUniform(0.5, 2)}},
                      {"dy: [..., N] like x", "gradient of y"},
                      {"-> dx: [..., N] like x over dy", "gradient of x"},
                      {"-> dz: [..., N] like x over z", "gradient of z"},
                      {"-> dw: [N] like x with w", "gradient of w"}});
  spec.add_options(gateOptions());
  spec.reference = rmsNormGatedBackwardReference;
  spec.factor = 3;
  // Three arrays and the sums are held at once.
  configureNormBackward(
      spec, [](const Invocation &call) { return call.has("w"); }, "rms_norm_gated_backward", 8192,
      8192);
  spec.typical = {{"...", 65536}, {"N", 128}};
  spec.small = {{"...", 5}, {"N", 300}};
  spec.apply = [](Use &use) {
    const std::int64_t n = use.extent("N"), count = use.extent("...");
    const auto config = use.config_as(GatedBackwardConfig{.whole = n <= use.field("block"),
                                                          .w = use.has("w"),
                                                          .silu = isSilu(use.call),
                                                          .normFirst = isNormFirst(use.call)});
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      auto means = noTensor<float, 1>();
      if (!config.whole) {
        means = use.workspace<float, 1>({count});
        GatedBackwardConfig wide = config;
        wide.rows = 1;
        wide.block = 4096;
        wide.warps = 16;
        use(gatedMeans<T>, count, wide, {{"means", means}, {"dw", noTensor<float, 2>()}});
      }
      const std::int64_t parts = count ? use.field("programs") : 0;
      const PartialSums<T> sums(use, parts, n, config.w ? "dw" : nullptr, nullptr);
      use(gatedBackward<T>, Grid(ceilDiv(n, config.block), parts), config,
          {{"means", means}, {"dw", sums.of("dw")}});
      sums.add();
    });
  };
  return spec;
}
