// quantize and silu_mul_quantize: matrices as fp8 or int8 codes with scales, as scaled_matmul reads
// them. Of the elements v that share a scale,
//   scale = max(min(largest |v|, scale_ub) / largest code, 2^-126), or what the caller gives,
//   y = v / scale, rounded to nearest even, the largest code of its sign beyond the codes,
// with v = x, or v = silu(gate) * up (Shazeer, arXiv 2002.05202) in f32. Scales of 1 x 128 and
// 128 x 128 elements are those of DeepSeek-V3 (arXiv 2412.19437); e8m0 scales are those of
// mx_matmul (OCP Microscaling Formats 1.0, arXiv 2310.10537), rounded up. A NaN or an infinity
// makes its scale NaN, and its block NaN, or 0 in int8, if no scale is given. Refused: blocks other
// than 32, 64 and 128, and what checkScales says.
#include "kernels/blocks/RoundedActivations.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/quantize/Codes.h"
#include "kernels/quantize/Family.h"
#include <sectile/error.h>

using namespace sectile;

namespace {

struct QuantizeConfig {
  int rows = 8, columns = 512, warps = 8;
  Granularity granularity = Granularity::tensor;
  int block = 128;    // elements of a group, or of a block's side
  bool whole = true;  // a row fits the columns
  bool gated = false; // silu(gate) * up instead of x
  bool scale = false; // given
  bool bounded = false, powerOfTwo = false;
  int partial = 1; // results of the first of two launches
};

template <class T, class Q, class S> struct QuantizeArguments {
  View<const T, 2> x, up;
  View<const float, 1> scale, partial;
  View<Q, 2> y;
  View<S, 2> scales;
  Float scale_ub;

  ScaleRule<Q> rule(const QuantizeConfig &config) const {
    return {scale, scale_ub, config.scale, config.bounded, config.powerOfTwo};
  }
};
template <class T> struct LargestArguments {
  View<const T, 2> x, up;
  View<float, 1> partial;
};

template <class T>
Tile<float> valuesOf(const View<const T, 2> &x, const View<const T, 2> &up, const Int &row,
                     const Int &column, const QuantizeConfig &config) {
  auto load = [&](const View<const T, 2> &from) {
    return cast<float>(from.tile(config.rows, config.columns).load(row, column));
  };
  if (!config.gated)
    return load(x);
  return activateFor<T>(Activation::silu, load(x)) * load(up);
}

// Scales that one program can settle: those of rows, groups and blocks.
template <class T, class Q, class S>
Kernel quantizeKernel{
    "quantize", [](const QuantizeArguments<T, Q, S> &a, const QuantizeConfig &config) {
      const int m = config.rows, n = config.columns;
      auto take = [&](const Int &i, const Int &j) { return valuesOf(a.x, a.up, i, j, config); };
      auto to = a.y.tile(m, n);
      const auto scaleOf = a.rule(config);
      if (config.granularity == Granularity::row) {
        auto row = program_id(0);
        auto finish = [&](const Tile<float> &largest) {
          auto scale = expand(scaleOf(max(largest, 1, Nan::propagate)), 1);
          a.scales.tile(m, 1).store(row, 0, storedScale<S>(scale));
          return scale;
        };
        if (config.whole) {
          auto values = take(row, 0);
          to.store(row, 0, codesOf<Q>(values, finish(abs(values))));
          return;
        }
        auto parts = cdiv(a.x.extent(1), n);
        auto largest = zeros<float>(m, n);
        if (!config.scale)
          for (auto part : range(0, parts))
            largest = maximum(largest, abs(take(row, part)), Nan::propagate);
        auto scale = finish(largest);
        for (auto part : range(0, parts))
          to.store(row, part, codesOf<Q>(take(row, part), scale));
        return;
      }
      auto across = cdiv(a.x.extent(1), n);
      auto i = program_id(0) / across, j = program_id(0) % across;
      auto values = take(i, j);
      if (config.granularity == Granularity::group) {
        const int groups = n / config.block;
        auto grouped = reshape(values, m, groups, config.block);
        auto scale = scaleOf(max(abs(grouped), 2, Nan::propagate));
        a.scales.tile(m, groups).store(i, j, storedScale<S>(scale));
        to.store(i, j, reshape(codesOf<Q>(grouped, expand(scale, 2)), m, n));
        return;
      }
      auto scale = scaleOf(max(abs(values), {0, 1}, Nan::propagate));
      a.scales.tile(1, 1).store(i, j, storedScale<S>(broadcast_to(scale, 1, 1)));
      to.store(i, j, codesOf<Q>(values, scale));
    }};

// One scale for all takes two launches, if it is not given. The largest magnitude does not depend
// on the order in which elements are compared, so that programs may share the work in any way.
template <class T>
Kernel largestMagnitude{
    "quantize_largest", [](const LargestArguments<T> &a, const QuantizeConfig &config) {
      auto across = cdiv(a.x.extent(1), config.columns);
      auto tiles = across * cdiv(a.x.extent(0), config.rows);
      auto largest = zeros<float>(config.rows, config.columns);
      for (auto tile : range(program_id(0), tiles, num_programs(0)))
        largest = maximum(largest, abs(valuesOf(a.x, a.up, tile / across, tile % across, config)),
                          Nan::propagate);
      store(a.partial.ptr() + program_id(0), max(largest, {0, 1}, Nan::propagate));
    }};

template <class T, class Q, class S>
Kernel quantizeAll{
    "quantize_all", [](const QuantizeArguments<T, Q, S> &a, const QuantizeConfig &config) {
      auto across = maximum(cdiv(a.x.extent(1), config.columns), 1);
      auto largest = config.scale ? Tile<float>(0.0f)
                                  : max(a.partial.tile(config.partial).load(0), 0, Nan::propagate);
      auto scale = a.rule(config)(largest);
      auto program = program_id(0);
      store(a.scales.ptr(), storedScale<S>(scale), program == 0);
      auto i = program / across, j = program % across;
      a.y.tile(config.rows, config.columns)
          .store(i, j, codesOf<Q>(valuesOf(a.x, a.up, i, j, config), scale));
    }};

constexpr std::int64_t widest = 512; // a warp's load of f16 by 16 bytes, twice

Config defaultsOf(const Invocation &call, const std::string &target) {
  const std::int64_t m = call.extent("M"), k = call.extent("K"),
                     block = call.options.integer("block"), units = multiprocessors(target),
                     programs = std::min<std::int64_t>(2 * units, 1024);
  auto config = [&](std::int64_t rows, std::int64_t columns, std::int64_t warps) {
    return Config{{"rows", rows}, {"columns", columns}, {"warps", warps}, {"programs", programs}};
  };
  const DType dtype = call.tensors[0].dtype;
  const Granularity granularity = granularityOf(call.options);
  if (granularity == Granularity::row) {
    const auto [columns, rows, warps] =
        rowBlocksFor(m, k, dtype == DType::float32 ? 8192 : 16384, dtype, target);
    return config(rows, columns, warps);
  }
  if (granularity == Granularity::block)
    return config(block, block,
                  std::clamp<std::int64_t>(block * block / (32 * warpSize(target)), 1, 16));
  const std::int64_t least = granularity == Granularity::group ? block : 32,
                     columns =
                         std::clamp(powerAtLeast(std::max<std::int64_t>(k, 1)), least, widest);
  // Four programs and more for each multiprocessor come before large ones.
  const std::int64_t spread = powerAtMost(m * k / (4 * units)),
                     tile = std::clamp<std::int64_t>(spread, columns, 4096),
                     rows = std::min(tile / columns, powerAtLeast(std::max<std::int64_t>(m, 1)));
  return config(rows, columns,
                std::clamp<std::int64_t>(rows * columns / (16 * warpSize(target)), 1, 8));
}

// Why a program cannot have these tiles; empty if it can.
std::string reasonToReject(const Invocation &call, const Config &config) {
  const std::int64_t block = call.options.integer("block"), rows = config.at("rows"),
                     columns = config.at("columns");
  switch (granularityOf(call.options)) {
  case Granularity::group:
    if (columns % block)
      return "configuration field 'columns' is " + std::to_string(columns) +
             ", which is no multiple of block, " + std::to_string(block);
    break;
  case Granularity::block:
    if (rows != block || columns != block)
      return "configuration fields 'rows' and 'columns' are " + std::to_string(rows) + " and " +
             std::to_string(columns) + ", but a block is " + std::to_string(block) + " of each";
    break;
  case Granularity::tensor:
  case Granularity::row:
    break;
  }
  return "";
}

bool isWorthTrying(const Invocation &call, const std::string &target, const Config &config) {
  const std::int64_t rows = config.at("rows"), columns = config.at("columns"),
                     tile = rows * columns, threads = config.at("warps") * warpSize(target);
  if (!reasonToReject(call, config).empty() || tile < 4 * threads || tile > 64 * threads)
    return false;
  switch (granularityOf(call.options)) {
  case Granularity::block:
    return true;
  case Granularity::row:
    return isFittingBlock(columns, call.extent("K"), call.tensors[0].dtype) &&
           (rows == 1 || (tile <= 4096 && rows < 2 * call.extent("M")));
  case Granularity::group:
  case Granularity::tensor:
    break;
  }
  return std::has_single_bit(static_cast<std::uint64_t>(columns)) && tile <= 8192 &&
         columns <= std::max<std::int64_t>(1024, call.options.integer("block")) &&
         columns < 2 * std::max<std::int64_t>(call.extent("K"), 128);
}

void launch(Use &use, const char *first, const char *second) {
  if (const std::string reason = reasonToReject(use.call, use.config); !reason.empty())
    refuse(use.call, reason);
  const std::int64_t m = use.extent("M"), k = use.extent("K");
  auto chosen = use.config_as<QuantizeConfig>();
  chosen.whole = k <= chosen.columns;
  chosen.gated = second != nullptr;
  chosen.powerOfTwo = use.call.options.choice("scale_format") != "f32";
  const std::int64_t down = ceilDiv(m, chosen.rows), tiles = down * ceilDiv(k, chosen.columns);
  chosen.bounded = use.call.options.number("scale_ub") > 0;
  for_dtype<float, half, bfloat16>(use.call.dtype(first), [&]<class T>(T) {
    const auto x = use.tensor<T, 2>(first);
    const auto up = second ? use.tensor<T, 2>(second) : noTensor<T, 2>();
    const bool ofAll = chosen.granularity == Granularity::tensor;
    auto partial = noTensor<float, 1>();
    if (ofAll && !chosen.scale) {
      // Of nothing there is a scale, too.
      const std::int64_t programs = std::clamp<std::int64_t>(tiles, 1, use.config.at("programs"));
      chosen.partial = static_cast<int>(powerAtLeast(programs));
      partial = use.workspace<float, 1>({programs});
      use(largestMagnitude<T>, programs, chosen, {{"x", x}, {"up", up}, {"partial", partial}});
    }
    for_dtype<float8_e4m3, float8_e5m2, std::int8_t>(use.call.dtype("y"), [&]<class Q>(Q) {
      for_dtype<float, std::uint8_t>(use.call.dtype("scales"), [&]<class S>(S) {
        const auto run = [&](const auto &kernel, std::int64_t programs) {
          use(kernel, programs, chosen, {{"x", x}, {"up", up}, {"partial", partial}});
        };
        if (ofAll)
          run(quantizeAll<T, Q, S>, std::max<std::int64_t>(tiles, 1));
        else
          run(quantizeKernel<T, Q, S>, chosen.granularity == Granularity::row ? down : tiles);
      });
    });
  });
}

KernelSpec specOf(const char *name, const char *summary, const std::vector<ArgumentRow> &inputs) {
  KernelSpec spec;
  spec.name = name;
  spec.summary = summary;
  const auto codes = [](const Invocation &call) { return *parseDType(call.options.choice("out")); };
  const auto scales = [](const Invocation &call) {
    return call.options.choice("scale_format") == "e8m0" ? DType::uint8 : DType::float32;
  };
  spec.add_arguments(inputs);
  spec.add_arguments(
      {givenScale(),
       {"-> y: [M, K]", "codes; a value is its code times its scale", {.dtype_by = codes}},
       {"-> scales: [Sm, Sk]",
        "[1, 1] of a tensor, [M, 1] of rows, [M, K / block] of groups, [M / block, K / block] of "
        "blocks, rounded up; each is `scale` where that is given",
        {.dtype_by = scales}}});
  spec.add_options(
      {{"granularity: tensor|row|group|block = group",
        "what has one scale: all, a row, `block` neighbours in a row, or `block` by `block` "
        "elements"},
       {"block: integer = 128 e.g. 32, 64",
        "extent of a group, and of a block's sides: 32, 64 or 128"},
       {"out: f8e4m3|f8e5m2|i8 = f8e4m3", "y's dtype"},
       {"scale_format: f32|power_of_two|e8m0 = f32",
        "f32; f32, rounded up to powers of two; such a power plus 127 in a byte"},
       largestMagnitudeOption()});
  spec.config = {{"rows", "rows of one program's tile"},
                 {"columns", "columns of one program's tile"},
                 {"warps", "warps of one program"},
                 {"programs", "programs that look for the largest magnitude of a tensor", 1, 4096}};
  spec.typical = {{"M", 4096}, {"K", 4096}};
  spec.small = {{"M", 33}, {"K", 200}};
  spec.derive = [](Invocation &call) {
    const ScaleBlock block = scaleBlockOf(call);
    const Granularity granularity = granularityOf(call.options);
    const std::int64_t m = call.extent("M"), k = call.extent("K");
    call.extents["Sm"] = granularity == Granularity::tensor ? 1 : ceilDiv(m, block.rows);
    const bool across = granularity == Granularity::tensor || granularity == Granularity::row;
    call.extents["Sk"] = across ? 1 : ceilDiv(k, block.columns);
  };
  spec.check = checkScales;
  spec.contents = checkGivenScale;
  spec.reference = quantizeReference;
  spec.defaults = defaultsOf;
  spec.spaces = {{.part = "quantize, quantize_all",
                  .axes = {{"rows", {1, 2, 4, 8, 16, 32, 64, 128}},
                           {"columns", rowBlocks()},
                           {"warps", {1, 2, 4, 8, 16}}},
                  .where = isWorthTrying}};
  return spec;
}

} // namespace

KernelSpec sectile::quantizeSpec() {
  KernelSpec spec = specOf("quantize", "y = x / scales as fp8 or int8, with the scales that fit x",
                           {{"x: [M, K] f32|f16|bf16", "any matrix"}});
  spec.apply = [](Use &use) { launch(use, "x", nullptr); };
  return spec;
}

KernelSpec sectile::siluMulQuantizeSpec() {
  KernelSpec spec = specOf(
      "silu_mul_quantize", "y = silu(gate) * up / scales as fp8 or int8, and the scales",
      {{"gate: [M, K] f32|f16|bf16", "any matrix; the halves of one array may be gate and up"},
       {"up: [M, K] like gate", "the same shape"}});
  spec.apply = [](Use &use) { launch(use, "gate", "up"); };
  return spec;
}
