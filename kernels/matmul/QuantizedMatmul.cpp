// quantized_matmul: activations times weights of 4 or 8 bits with a scale (and a zero point) for
// each run of `group` weights along K. A weight is (code - zero) * scale, rounded to the
// activations' dtype; c = act(a w^T + bias). So GPTQ's and AWQ's weights are defined (arXiv
// 2210.17323, 2306.00978); the order of the codes is our own. A group that is no multiple of 16 is
// refused.
#include "kernels/calls/Use.h"
#include "kernels/matmul/Epilogue.h"
#include "kernels/matmul/Family.h"
#include "kernels/matmul/Gemm.h"
#include "kernels/matmul/ProductModel.h"
#include "kernels/matmul/SharedSums.h"
#include "kernels/references/Sample.h"
#include <algorithm>
#include <sectile/error.h>

using namespace sectile;

namespace {

struct QuantizedConfig {
  int m = 64, n = 128, k = 32, order = 8, warps = 4, stages = 3;
  int splits = 1, sliceM = 0, sliceN = 0; // sliceM: add up the parts of splits, in slices
  int group = 128;
  Activation activation = Activation::none;
  bool zeros = false, bias = false;
  bool even = false; // no step goes beyond K
};

// Two codes of 4 bits, the first in the low half.
template <class Code> constexpr bool isPacked = std::is_same_v<Code, std::uint8_t>;

// What weights are decoded from.
template <class T, class Code> struct CodedWeights {
  View<const Code, 2> w;
  View<const T, 2> scales, zeros;
};

// What the weights of tile (j, step) are scaled by, and what stands for 0, [n, 1]. They lie in one
// group.
template <class T> struct Scaling {
  Tile<T> scales, zeros;

  template <class Code>
  Scaling(const CodedWeights<T, Code> &coded, const Int &j, const Int &step,
          const QuantizedConfig &config) {
    const Int group = step * config.k / config.group;
    scales = coded.scales.tile(config.n, 1).load(j, group);
    zeros = config.zeros ? coded.zeros.tile(config.n, 1).load(j, group) : scales;
  }
};

// Weights [n, k] of tile (j, step).
template <class T, class Code>
Tile<T> decoded(const CodedWeights<T, Code> &coded, const Int &j, const Int &step,
                const Scaling<T> &scaling, const QuantizedConfig &config) {
  auto bits = coded.w.tile(config.n, isPacked<Code> ? config.k / 2 : config.k).load(j, step);
  Tile<float> weights;
  if constexpr (isPacked<Code>)
    weights = cast<float>(interleave(bits & 15, bits >> 4));
  else
    weights = cast<float>(bits);
  if (config.zeros)
    weights = weights - cast<float>(scaling.zeros);
  else if (isPacked<Code>)
    weights = weights - 8.0f;
  weights = weights * cast<float>(scaling.scales);
  // Beyond K the codes are 0, but the weights may be infinite, which times 0 is NaN.
  if (!config.even) {
    const Int depth = coded.w.extent(1) * (isPacked<Code> ? 2 : 1);
    weights = where(expand(step * config.k + arange(0, config.k) < depth, 0), weights, 0.0f);
  }
  return cast<T>(weights);
}

template <class T, class Code> struct QuantizedArguments {
  View<const T, 2> a;
  CodedWeights<T, Code> weights;
  View<const T, 1> bias;
  View<T, 2> c;
  View<float, 3> parts;
};

// Code is int8_t, uint8_t, or T where the weights have been decoded.
template <class T, class Code>
Kernel quantizedMatmul{
    "quantized_matmul",
    [](const QuantizedArguments<T, Code> &arguments, const QuantizedConfig &config) {
      const auto &[a, coded, bias, c, parts] = arguments;
      const int m = config.m, n = config.n, depth = config.k;
      const PartLayout layout(m, n);
      if (config.sliceM) {
        addUpSlice(
            parts, c.tiles(m, n), config,
            [&](const Int &i, const Int &j, const Tile<float> &sums,
                const QuantizedConfig &ofSlice) { storeActivated(c, bias, i, j, sums, ofSlice); });
        return;
      }
      const Int program = program_id(0), part = program % config.splits,
                steps = cdiv(a.extent(1), depth);
      auto [i, j] = grouped_order(program / config.splits, c.tiles(m, n), config.order);
      auto left = a.tile(m, depth);
      auto sums = zeros<float>(m, n);
      const Int first = part * steps / config.splits, end = (part + 1) * steps / config.splits;
      if constexpr (std::is_same_v<Code, T>) {
        for (auto step : range(first, end))
          sums = dot(left.load(i, step), trans(coded.w.tile(n, depth).load(j, step)), sums);
      } else {
        // Scales are loaded a step ahead, as elements, which no copy does.
        Scaling<T> next(coded, j, first, config);
        for (auto step : range(first, end)) {
          const Scaling<T> scaling = next;
          next = Scaling<T>(coded, j, step + 1, config);
          sums = dot(left.load(i, step), trans(decoded<T, Code>(coded, j, step, scaling, config)),
                     sums);
        }
      }
      if (config.splits == 1)
        storeActivated(c, bias, i, j, sums, config);
      else
        layout.store(parts.at(program), sums);
    }};

template <class T, class Code> struct DecodeArguments {
  CodedWeights<T, Code> coded;
  View<T, 2> weights;
};

template <class T, class Code>
Kernel quantizedDecode{
    "quantized_matmul_decode",
    [](const DecodeArguments<T, Code> &a, const QuantizedConfig &config) {
      const Int j = program_id(0), step = program_id(1);
      a.weights.tile(config.n, config.k)
          .store(j, step,
                 decoded<T, Code>(a.coded, j, step, Scaling<T>(a.coded, j, step, config), config));
    }};

void sampleScales(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  const double one = call.dtype("w") == DType::uint8 ? 1.0 / 8 : 1.0 / 128;
  sampleUniform(0.5 * one, 1.5 * one)(call, array, random);
}

void sampleCodes(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  const bool packed = array.dtype == DType::uint8;
  sampleIntegers(packed ? 0 : -127, packed ? 255 : 127)(call, array, random);
}

void check(const Invocation &call) {
  auto fail = [](const std::string &what) { throw InputError("quantized_matmul: " + what); };
  const std::int64_t group = call.options.integer("group"), k = call.extent("K");
  if (group < 16 || group % 16 != 0)
    fail("option 'group' is a positive multiple of 16, not " + std::to_string(group));
  const bool packed = call.dtype("w") == DType::uint8;
  if (call.extent("W") * (packed ? 2 : 1) != k)
    fail("w has " + std::to_string(call.extent("W")) + (packed ? " bytes" : " codes") +
         " in a row, but K is " + std::to_string(k) + (packed ? ": two codes go into a byte" : ""));
  if (call.extent("S") != ceilDiv(k, group))
    fail("scales has " + std::to_string(call.extent("S")) + " in a row, but " +
         std::to_string(ceilDiv(k, group)) + " groups of " + std::to_string(group) +
         " cover K = " + std::to_string(k));
}

Config defaults(const Invocation &call, const std::string &target) {
  const DType dtype = call.dtype("a");
  const std::int64_t group = call.options.integer("group"), rows = call.extent("M");
  const auto inGroup = [&](std::int64_t most) { return std::min(group & -group, most); };
  const auto fields = [&](const ProductConfig &config, bool decodeFirst) {
    Config result = productFields(call, config, target);
    result["decode_first"] = decodeFirst;
    return result;
  };
  if (!hasMatrixUnits(target, dtype))
    return fields({.m = rows <= 16 ? 16 : 64, .n = 64, .k = inGroup(64), .warps = 4, .stages = 3},
                  false);
  // Each row of tiles would decode all weights again. For how many rows that costs more is known
  // of warpgroups.
  const bool byWarpgroups = hasWarpgroupUnits(target, dtype, /*alongK=*/true);
  if (rows >= (byWarpgroups ? 256 : 1024)) {
    ProductConfig tile{.m = 128, .n = 128, .k = 32, .warps = 4, .stages = 3};
    if (byWarpgroups)
      tile = fastestProduct(
          productTiles,
          {.batches = 1, .rows = rows, .columns = call.extent("N"), .inner = call.extent("K")}, {},
          target);
    return fields(tile, true);
  }
  if (rows > 64)
    return fields({.m = 64, .n = 64, .k = inGroup(128), .warps = 4, .stages = 3}, false);
  // Of few rows, reading and decoding the weights takes the time: as many programs as a chip holds
  // at once, of twice the columns where these are enough, since a step has much to do beside them.
  ProductConfig config{
      .m = rows <= 16 ? 16 : 32, .n = 64, .k = inGroup(128), .warps = 4, .stages = 4};
  constexpr std::int64_t beside = 6, mostSplits = 8;
  const std::int64_t leastSteps = rows <= 16 ? 8 : 32, steps = ceilDiv(call.extent("K"), config.k);
  const auto tiles = [&] {
    return std::max<std::int64_t>(ceilDiv(rows, config.m) * ceilDiv(call.extent("N"), config.n), 1);
  };
  if (rows > 16 || tiles() * std::clamp<std::int64_t>(steps / leastSteps, 1, mostSplits) <
                       multiprocessors(target))
    config.n = 32;
  const std::int64_t programs = tiles();
  config.splits = std::clamp<std::int64_t>(
      std::min(beside * multiprocessors(target) / programs, steps / leastSteps), 1, mostSplits);
  return fields(config, false);
}

void apply(Use &use) {
  auto config = use.config_as<QuantizedConfig>();
  const bool decodeFirst = use.field("decode_first");
  if (!decodeFirst && config.group % config.k != 0)
    throw InputError("quantized_matmul: configuration field 'k' is " + std::to_string(config.k) +
                     ", which does not divide the group of " + std::to_string(config.group));
  const std::int64_t columns = use.extent("N"), inner = use.extent("K"),
                     tiles = ceilDiv(use.extent("M"), config.m) * ceilDiv(columns, config.n);
  config.even = decodeFirst || inner % config.k == 0; // decoded weights beyond K are not stored
  const auto parts =
      partsOfSums<float>(use, partsOfSplits(tiles, config.splits), config.m, config.n);
  for_dtype<half, bfloat16>(use.call.dtype("a"), [&]<class T>(T) {
    for_dtype<std::uint8_t, std::int8_t>(use.call.dtype("w"), [&]<class Code>(Code) {
      if (!decodeFirst) {
        forSplits(config, tiles * config.splits, tiles,
                  [&](std::int64_t programs, const QuantizedConfig &each) {
                    use(quantizedMatmul<T, Code>, programs, each, {{"parts", parts}});
                  });
        return;
      }
      const auto weights = use.workspace<T, 2>({columns, inner});
      QuantizedConfig decode = config;
      decode.n = 32;
      decode.k = std::min(config.group & -config.group, 128);
      use(quantizedDecode<T, Code>, Grid(ceilDiv(columns, decode.n), ceilDiv(inner, decode.k)),
          decode, {{"weights", weights}});
      QuantizedConfig product = config;
      product.splits = 1;
      use(quantizedMatmul<T, T>, tiles, product, {{"w", weights}, {"parts", parts}});
    });
  });
}

} // namespace

KernelSpec sectile::quantizedMatmulSpec() {
  KernelSpec spec;
  spec.name = "quantized_matmul";
  spec.summary = "c = act(a w^T + bias), w of int4 or int8 codes with scales";
  spec.add_arguments(
      {{"a: [M, K] f16|bf16"},
       {"w: [N, W] u8|i8",
        "u8: two int4 codes in a byte, neighbours along K, the first in the low half, W = K / 2; "
        "i8: W = K",
        {.sample = sampleCodes}},
       {"scales: [N, S] like a",
        "of each run of `group` weights along K",
        {.sample = sampleScales}},
       {"zeros?: [N, S] like a",
        "the codes that stand for 0; if left out 8 for int4, 0 for int8",
        {.sample = sampleIntegers(0, 15)}},
       {"bias?: [N] like a", "added to each row"},
       {"-> c: [M, N] like a", "accumulated in f32"}});
  spec.add_options(
      {{"group: integer = 128 e.g. 16, 32, 64", "weights that share a scale; a multiple of 16"},
       activationOption()});
  spec.flops = [](const Invocation &call) { return productFlops(call, {"M", "N", "K"}); };
  spec.config = productFieldSpecs(
      "order", "depth of one step; divides `group`",
      {{"splits", "programs that share the sums of one tile, without decode_first"},
       {"decode_first", "1: the weights are decoded before the product, into scratch memory"}});
  spec.neutral = {"order", "stages"};
  spec.typical = {{"M", 16}, {"N", 4096}, {"K", 4096}};
  spec.small = {{"M", 20}, {"N", 50}, {"K", 160}};
  spec.follow = [](Invocation &call) {
    const std::int64_t k = call.extent("K");
    call.extents["W"] = call.dtype("w") == DType::uint8 ? k / 2 : k;
    call.extents["S"] = ceilDiv(k, std::max<std::int64_t>(call.options.integer("group"), 1));
  };
  spec.check = check;
  spec.reference = quantizedMatmulReference;
  spec.defaults = defaults;
  spec.spaces = {
      {.part = "quantized_matmul",
       .axes = {{"m", {16, 32, 64, 128}},
                {"n", {32, 64, 128}},
                {"k", {16, 32, 64, 128}},
                {"warps", {4, 8}},
                {"stages", {2, 3, 4}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const bool decodeFirst = config.at("decode_first");
         const std::int64_t sums = sumsOfThread(config, target);
         return sums >= 4 && sums <= (decodeFirst ? 128 : 64) &&
                (decodeFirst || call.options.integer("group") % config.at("k") == 0);
       }}};
  spec.apply = apply;
  return spec;
}
