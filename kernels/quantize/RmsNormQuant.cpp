// rms_norm_quant: RMS norm of x, or of h = x + residual as x's dtype rounds it, as codes of 8 bits
// with scales of rows or of groups of a row, for scaled_matmul and mx_matmul:
//   z = h rstd (w + weight_offset), rstd = 1 / sqrt(mean of h^2 + eps),
//   scales = max(min(largest |z|, scale_ub) / largest code, 2^-126), or what the caller gives,
//   y = z / scales, rounded to nearest even, the largest code of its sign beyond the codes,
// in f32 up to there. A NaN or an infinity makes its row's scales and codes NaN, or 0 in int8, if
// no scale is given. Refused: a negative eps, blocks other than 32, 64 and 128, and what
// checkScales says.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/norm/NormReferences.h"
#include "kernels/norm/RmsRows.h"
#include "kernels/quantize/Codes.h"
#include "kernels/quantize/Family.h"

using namespace sectile;

namespace {

struct RmsNormQuantConfig {
  int block = 1024, rows = 1, warps = 4;
  int group = 128;       // elements that share a scale
  bool grouped = false;  // else a row does
  bool whole = true;     // a row fits a block
  bool residual = false; // given
  bool w = true;         // given
  bool scale = false;    // given
  bool bounded = false, powerOfTwo = false;
};

template <class T, class Q, class S> struct RmsNormQuantArguments {
  View<const T, 2> x;
  View<const T, 1> w;
  View<const T, 2> residual;
  View<const float, 1> scale;
  View<Q, 2> y;
  View<S, 2> scales;
  View<T, 2> h;
  View<float, 1> rstd;
  Float eps, weight_offset, scale_ub;
};

template <class T, class Q, class S>
Kernel rmsNormQuant{
    "rms_norm_quant",
    [](const RmsNormQuantArguments<T, Q, S> &a, const RmsNormQuantConfig &config) {
      const int m = config.rows, n = config.block, groups = n / config.group;
      const Int row = program_id(0);
      const RmsRows<T> rows{a.x, a.residual, a.h, a.rstd, a.eps, m, n, config.residual, row};
      const auto to = a.y.tile(m, n);
      // Zero behind the row's end, where 0 rstd may be NaN.
      const auto normal = [&](const Int &block, const Tile<float> &values,
                              const Tile<float> &rstd) {
        auto result = values * rstd;
        if (config.w)
          result = result * expand(cast<float>(a.w.tile(n).load(block)) + a.weight_offset, 0);
        return where(expand(block * n + arange(0, n) < a.x.extent(1), 0), result, 0.0f);
      };
      const ScaleRule<Q> scaleOf{a.scale, a.scale_ub, config.scale, config.bounded,
                                 config.powerOfTwo};
      const auto writeGroups = [&](const Int &block, const Tile<float> &values) {
        const auto grouped = reshape(values, m, groups, config.group);
        const auto scale = scaleOf(max(abs(grouped), 2, Nan::propagate));
        a.scales.tile(m, groups).store(row, block, storedScale<S>(scale));
        to.store(row, block, reshape(codesOf<Q>(grouped, expand(scale, 2)), m, n));
      };
      const auto rowScale = [&](const Tile<float> &magnitudes) {
        const auto scale = expand(scaleOf(max(magnitudes, 1, Nan::propagate)), 1);
        a.scales.tile(m, 1).store(row, 0, storedScale<S>(scale));
        return scale;
      };

      if (config.whole) {
        const auto values = rows.take(0);
        const auto result = normal(0, values, rows.scaleOf(sum(values * values, 1)));
        if (config.grouped)
          writeGroups(0, result);
        else
          to.store(row, 0, codesOf<Q>(result, rowScale(abs(result))));
        return;
      }
      const auto rstd = rows.scaleOfLong();
      const auto at = [&](const Int &block) { return normal(block, rows.again(block), rstd); };
      if (config.grouped) {
        for (auto block : range(0, rows.blocks()))
          writeGroups(block, at(block));
        return;
      }
      auto largest = zeros<float>(m, n);
      if (!config.scale)
        for (auto block : range(0, rows.blocks()))
          largest = maximum(largest, abs(at(block)), Nan::propagate);
      const auto scale = rowScale(largest);
      for (auto block : range(0, rows.blocks()))
        to.store(row, block, codesOf<Q>(at(block), scale));
    }};

bool isGrouped(const Invocation &call) { return call.options.choice("granularity") == "group"; }
bool fits(const Invocation &call, const Config &config) {
  return !isGrouped(call) || config.at("block") % call.options.integer("block") == 0;
}

} // namespace

KernelSpec sectile::rmsNormQuantSpec() {
  KernelSpec spec;
  spec.name = "rms_norm_quant";
  spec.summary = "rms_norm of x or x + residual as fp8 or int8 codes, with the scales that fit";
  const auto codes = [](const Invocation &call) { return *parseDType(call.options.choice("out")); };
  const auto scales = [](const Invocation &call) {
    return call.options.choice("scale_format") == "e8m0" ? DType::uint8 : DType::float32;
  };
  spec.add_arguments({{"x: [..., N] f32|f16|bf16", "any number of rows, of any length"},
                      {"w?: [N] like x", "weight"},
                      {"residual?: [..., N] like x", "added to x before"},
                      givenScale(),
                      {"-> y: [..., N]",
                       "codes; a normalised number is its code times its scale",
                       {.dtype_by = codes}},
                      {"-> scales: [..., Sn]",
                       "[..., 1] of rows, [..., N / block] of groups, rounded up; each is `scale` "
                       "where that is given",
                       {.dtype_by = scales}},
                      {"-> h: [..., N] like x over x, residual with residual", "x + residual"},
                      {"-> rstd: [...] f32", "1/sqrt(mean of h^2 + eps) of each row"}});
  spec.add_options({{"eps: number = 1e-6 from 0 e.g. 0.01", "added to the mean of the squares"},
                    {"weight_offset: number = 0 e.g. 1", "added to w; 1 in Gemma"},
                    {"granularity: row|group = row", "what has one scale: a row, or `block` "
                                                     "neighbours in a row"},
                    {"block: integer = 128 e.g. 32, 64", "elements of a group: 32, 64 or 128"},
                    {"out: f8e4m3|f8e5m2|i8 = f8e4m3", "y's dtype"},
                    {"scale_format: f32|power_of_two|e8m0 = f32",
                     "f32; f32, rounded up to powers of two; such a power plus 127 in a byte"},
                    largestMagnitudeOption()});
  configureRows(spec, "N", 8192, elementsTogetherWithWeights);
  // Blocks of whole groups.
  spec.defaults = [plain = spec.defaults](const Invocation &call, const std::string &target) {
    Config config = plain(call, target);
    if (!fits(call, config))
      config["block"] = std::max(powerAtLeast(config["block"]), call.options.integer("block"));
    return config;
  };
  for (SearchSpace &space : spec.spaces)
    space.where = [plain = space.where](const Invocation &call, const std::string &target,
                                        const Config &config) {
      return fits(call, config) && plain(call, target, config);
    };
  spec.typical = {{"...", 4096}, {"N", 4096}};
  spec.small = {{"...", 5}, {"N", 300}};
  spec.derive = [](Invocation &call) {
    call.extents["Sn"] =
        isGrouped(call)
            ? ceilDiv(call.extent("N"), std::max<std::int64_t>(call.options.integer("block"), 1))
            : 1;
  };
  spec.check = checkScales;
  spec.contents = checkGivenScale;
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    auto norm = rmsNormReference(in[0], movedWeight(in[1], call.options.number("weight_offset")),
                                 call.has("residual") ? &in[2] : nullptr,
                                 call.options.number("eps"), arithmetic);
    const std::int64_t n = call.extent("N"), rows = elementCount(call.leading);
    norm.y.shape = {rows, n};
    auto quantised = quantizedReference(
        norm.y,
        {{1, isGrouped(call) ? call.options.integer("block") : std::max<std::int64_t>(n, 1)},
         {rows, call.extent("Sn")},
         call.dtype("y"),
         call.options.choice("scale_format"),
         limitsOf(call, in)},
        arithmetic);
    return std::vector{quantised[0], quantised[1], norm.h, norm.rstd};
  };
  spec.apply = [](Use &use) {
    if (!fits(use.call, use.config))
      refuse(use.call, "configuration field 'block' is ", use.field("block"),
             ", which is no multiple of the groups' ", use.call.options.choice("block"));
    const auto config = use.config_as(
        RmsNormQuantConfig{.group = static_cast<int>(use.call.options.integer("block")),
                           .grouped = isGrouped(use.call),
                           .whole = use.extent("N") <= use.field("block"),
                           .residual = use.has("residual"),
                           .w = use.has("w"),
                           .scale = use.has("scale"),
                           .bounded = use.call.options.number("scale_ub") > 0,
                           .powerOfTwo = use.call.options.choice("scale_format") != "f32"});
    const Grid grid(ceilDiv(use.extent("..."), config.rows));
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      for_dtype<float8_e4m3, float8_e5m2, std::int8_t>(use.call.dtype("y"), [&]<class Q>(Q) {
        for_dtype<float, std::uint8_t>(use.call.dtype("scales"), [&]<class S>(S) {
          use(rmsNormQuant<T, Q, S>, grid, config);
        });
      });
    });
  };
  return spec;
}
