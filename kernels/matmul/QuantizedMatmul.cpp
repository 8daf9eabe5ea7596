// quantized_matmul: activations times weights of 4 or 8 bits with a scale (and a zero point) for
// each run of `group` weights along K. A weight is (code - zero) * scale, rounded to the
// activations' dtype; c = act(a w^T + bias). So GPTQ's and AWQ's weights are defined (arXiv
// 2210.17323, 2306.00978); the order of the codes is our own. A group that is no multiple of 16 is
// refused.
#include "kernels/Sample.h"
#include "kernels/Use.h"
#include "kernels/matmul/Epilogue.h"
#include "kernels/matmul/Family.h"
#include "kernels/matmul/Gemm.h"
#include "kernels/matmul/ProductModel.h"
#include <algorithm>
#include <sectile/error.h>

using namespace sectile;

namespace {

struct QuantizedConfig {
  int m = 64, n = 128, k = 32, order = 8, warps = 4, stages = 3;
  int group = 128;
  int activation = 0;
  bool zeros = false, bias = false;
};
SECTILE_CONFIG(QuantizedConfig, m, n, k, order, warps, stages, group, activation, zeros, bias)

// Two codes of 4 bits, the first in the low half.
template <class Code> constexpr bool isPacked = std::is_same_v<Code, std::uint8_t>;

// Weights [n, k] of tile (j, step). They lie in one group.
template <class T, class Code>
Tile<T> decoded(const View<const Code, 2> &w, const View<const T, 2> &scales,
                const View<const T, 2> &zeroes, const Int &j, const Int &step,
                const QuantizedConfig &config) {
  auto bits = w.tile(config.n, isPacked<Code> ? config.k / 2 : config.k).load(j, step);
  Tile<float> weights;
  if constexpr (isPacked<Code>)
    weights = cast<float>(interleave(bits & 15, bits >> 4));
  else
    weights = cast<float>(bits);
  const Int group = step * config.k / config.group;
  auto along = [&](const View<const T, 2> &values) {
    return expand(cast<float>(values.fix(1, group).tile(config.n).load(j)), 1);
  };
  if (config.zeros)
    weights = weights - along(zeroes);
  else if (isPacked<Code>)
    weights = weights - 8.0f;
  return cast<T>(weights * along(scales));
}

// Code is int8_t, uint8_t, or T where the weights have been decoded.
template <class T, class Code>
Kernel quantizedMatmul{
    "quantized_matmul",
    [](View<const T, 2> a, View<const Code, 2> w, View<const T, 2> scales, View<const T, 2> zeroes,
       View<const T, 1> bias, View<T, 2> c, const QuantizedConfig &config) {
      const int m = config.m, n = config.n, depth = config.k;
      auto [i, j] = grouped_order(program_id(0), c.tiles(m, n), config.order);
      auto left = a.tile(m, depth);
      auto sums = zeros<float>(m, n);
      for (auto step : range(0, cdiv(a.extent(1), depth))) {
        Tile<T> weights;
        if constexpr (std::is_same_v<Code, T>)
          weights = w.tile(n, depth).load(j, step);
        else
          weights = decoded<T, Code>(w, scales, zeroes, j, step, config);
        sums = dot(left.load(i, step), trans(weights), sums);
      }
      if (config.bias)
        sums = sums + expand(cast<float>(bias.tile(n).load(j)), 0);
      c.tile(m, n).store(i, j, activate(static_cast<Activation>(config.activation), sums));
    }};

template <class T, class Code>
Kernel quantizedDecode{"quantized_matmul_decode",
                       [](View<const Code, 2> w, View<const T, 2> scales, View<const T, 2> zeroes,
                          View<T, 2> weights, const QuantizedConfig &config) {
                         const Int j = program_id(0), step = program_id(1);
                         weights.tile(config.n, config.k)
                             .store(j, step, decoded<T, Code>(w, scales, zeroes, j, step, config));
                       }};

void sampleCodes(const Invocation &, HostArray &array, std::mt19937_64 &random) {
  const bool packed = array.dtype == DType::uint8;
  std::uniform_int_distribution<int> codes(packed ? 0 : -127, packed ? 255 : 127);
  fillDrawn(array, [&] { return codes(random); });
}

void sampleScales(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  const double one = call.dtype("w") == DType::uint8 ? 1.0 / 8 : 1.0 / 128;
  std::uniform_real_distribution<double> scale(0.5 * one, 1.5 * one);
  fillDrawn(array, [&] { return scale(random); });
}

void sampleZeros(const Invocation &, HostArray &array, std::mt19937_64 &random) {
  std::uniform_int_distribution<int> zero(0, 15);
  fillDrawn(array, [&] { return zero(random); });
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

} // namespace

KernelSpec sectile::quantizedMatmulSpec() {
  KernelSpec spec;
  spec.name = "quantized_matmul";
  spec.summary = "c = act(a w^T + bias), w of int4 or int8 codes with scales";
  spec.arguments = {
      {.name = "a", .axes = {"M", "K"}, .dtypes = {DType::float16, DType::bfloat16}},
      {.name = "w",
       .axes = {"N", "W"},
       .dtypes = {DType::uint8, DType::int8},
       .sample = sampleCodes,
       .doc = "u8: two int4 codes in a byte, neighbours along K, the first in the low half, W = K "
              "/ 2; i8: W = K"},
      {.name = "scales",
       .axes = {"N", "S"},
       .like = "a",
       .sample = sampleScales,
       .doc = "of each run of `group` weights along K"},
      {.name = "zeros",
       .optional = true,
       .axes = {"N", "S"},
       .like = "a",
       .sample = sampleZeros,
       .doc = "the codes that stand for 0; if left out 8 for int4, 0 for int8"},
      {.name = "bias", .optional = true, .axes = {"N"}, .like = "a", .doc = "added to each row"},
      {.name = "c", .output = true, .axes = {"M", "N"}, .like = "a", .doc = "accumulated in f32"},
  };
  spec.flops = [](const Invocation &call) {
    return 2.0 * double(call.extent("M")) * double(call.extent("N")) * double(call.extent("K"));
  };
  spec.options = {{.name = "group",
                   .kind = OptionSpec::integer,
                   .initial = "128",
                   .samples = {"16", "32", "64"},
                   .doc = "weights that share a scale; a multiple of 16"},
                  activationOption()};
  spec.config = {{"m", "rows of one program's tile"},
                 {"n", "columns of one program's tile"},
                 {"k", "depth of one step; divides `group`"},
                 {"order", "tile rows that neighbouring programs share"},
                 {"warps", "warps of one program"},
                 {"stages", "steps in flight"},
                 {"apart", "1: the weights are decoded before the product, into scratch memory"}};
  spec.neutral = {"order", "stages"};
  spec.typical = {{"M", 16}, {"N", 4096}, {"K", 4096}};
  spec.small = {{"M", 20}, {"N", 50}, {"K", 160}};
  spec.follow = [](Invocation &call) {
    const std::int64_t k = call.extent("K");
    call.extents["W"] = call.dtype("w") == DType::uint8 ? k / 2 : k;
    call.extents["S"] = ceilDiv(k, std::max<std::int64_t>(call.options.integer("group"), 1));
  };
  spec.check = check;
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    return std::vector{quantizedMatmulReference(call, inputs, arithmetic)};
  };
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const std::int64_t group = call.options.integer("group"), rows = call.extent("M");
    const auto inGroup = [&](std::int64_t most) { return std::min(group & -group, most); };
    if (!hasMatrixUnits(target, call.tensors[0].dtype))
      return Config{{"m", rows <= 16 ? 16 : 64},
                    {"n", 64},
                    {"k", inGroup(64)},
                    {"order", 8},
                    {"warps", 4},
                    {"stages", 3},
                    {"apart", 0}};
    // Each row of tiles would decode all weights again.
    if (rows >= 1024) {
      ProductConfig tile{.m = 128, .n = 128, .k = 32, .warps = 4, .stages = 3};
      if (hasWarpgroupUnits(target, call.tensors[0].dtype, /*alongK=*/true))
        tile = fastestProduct(
            productTiles,
            {.batches = 1, .rows = rows, .columns = call.extent("N"), .inner = call.extent("K")},
            {}, target);
      return Config{{"m", tile.m},         {"n", tile.n},           {"k", tile.k}, {"order", 8},
                    {"warps", tile.warps}, {"stages", tile.stages}, {"apart", 1}};
    }
    const bool few = rows <= 64;
    return Config{{"m", rows <= 16 ? 16
                        : few      ? 32
                                   : 64},
                  {"n", few ? 32 : 64},
                  {"k", inGroup(128)},
                  {"order", 8},
                  {"warps", 4},
                  {"stages", few ? 4 : 3},
                  {"apart", 0}};
  };
  spec.spaces = {
      {.part = "quantized_matmul",
       .axes = {{"m", {16, 32, 64, 128}},
                {"n", {32, 64, 128}},
                {"k", {16, 32, 64, 128}},
                {"warps", {4, 8}},
                {"stages", {2, 3, 4}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const bool apart = config.at("apart");
         const std::int64_t sums =
             config.at("m") * config.at("n") / (config.at("warps") * warpSize(target));
         return sums >= 4 && sums <= (apart ? 128 : 64) &&
                (apart || call.options.integer("group") % config.at("k") == 0);
       }}};
  spec.apply = [](Use &use) {
    const std::int64_t group = use.call.options.integer("group");
    const bool apart = use.field("apart");
    if (!apart && group % use.field("k") != 0)
      throw InputError("quantized_matmul: configuration field 'k' is " +
                       std::to_string(use.field("k")) + ", which does not divide the group of " +
                       std::to_string(group));
    const QuantizedConfig chosen{
        .m = use.field("m"),
        .n = use.field("n"),
        .k = use.field("k"),
        .order = use.field("order"),
        .warps = use.field("warps"),
        .stages = use.field("stages"),
        .group = static_cast<int>(group),
        .activation = static_cast<int>(activationOf(use.call.options.choice("activation"))),
        .zeros = use.has("zeros"),
        .bias = use.has("bias")};
    const std::int64_t columns = use.call.extent("N"), inner = use.call.extent("K");
    const std::int64_t programs =
        ceilDiv(use.call.extent("M"), chosen.m) * ceilDiv(columns, chosen.n);
    for_dtype<half, bfloat16>(use.call.dtype("a"), [&]<class T>(T) {
      for_dtype<std::uint8_t, std::int8_t>(use.call.dtype("w"), [&]<class Code>(Code) {
        const auto w = use.tensor<Code, 2>("w");
        const auto scales = use.tensor<T, 2>("scales"), zeroes = use.tensor<T, 2>("zeros");
        const auto launch = [&]<class Weights>(const Tensor<Weights, 2> &weights) {
          use(quantizedMatmul<T, Weights>, programs, use.tensor<T, 2>("a"), weights, scales, zeroes,
              use.tensor<T, 1>("bias"), use.tensor<T, 2>("c"), chosen);
        };
        if (!apart) {
          launch(w);
          return;
        }
        const auto weights = use.workspace<T, 2>({columns, inner});
        QuantizedConfig decode = chosen;
        decode.n = 32;
        decode.k = group % 128 == 0 ? 128 : group % 64 == 0 ? 64 : group % 32 == 0 ? 32 : 16;
        use(quantizedDecode<T, Code>, Grid(ceilDiv(columns, decode.n), ceilDiv(inner, decode.k)), w,
            scales, zeroes, weights, decode);
        launch(weights);
      });
    });
  };
  return spec;
}
