// quantized_matmul: activations times weights of 4 or 8 bits with a scale (and a zero point) for
// each run of `group` weights along K. A weight is (code - zero) * scale, rounded to the
// activations' dtype; c = act(a w^T + bias).
#include "kernels/InputError.h"
#include "kernels/Use.h"
#include "kernels/matmul/Epilogue.h"
#include "kernels/matmul/Family.h"
#include "kernels/matmul/Gemm.h"
#include <algorithm>

using namespace sectile;

namespace {

struct QuantizedConfig {
  int m = 64, n = 128, k = 32, order = 8, warps = 4, stages = 3;
  int group = 128;
  int activation = 0;
  bool zeros = false, bias = false;
};
SECTILE_CONFIG(QuantizedConfig, m, n, k, order, warps, stages, group, activation, zeros, bias)

// Code is int8_t, or uint8_t for two codes of 4 bits: the first in the low half.
template <class T, class Code>
Kernel quantizedMatmul{
    "quantized_matmul",
    [](View<const T, 2> a, View<const Code, 2> w, View<const T, 2> scales, View<const T, 2> zeroes,
       View<const T, 1> bias, View<T, 2> c, const QuantizedConfig &config) {
      constexpr bool packed = std::is_same_v<Code, std::uint8_t>;
      const int m = config.m, n = config.n, depth = config.k;
      auto [i, j] = grouped_order(program_id(0), c.tiles(m, n), config.order);
      auto left = a.tile(m, depth);
      auto codes = w.tile(n, packed ? depth / 2 : depth);
      auto sums = zeros<float>(m, n);
      for (auto step : range(0, cdiv(a.extent(1), depth))) {
        auto bits = codes.load(j, step);
        Tile<float> weights;
        if constexpr (packed)
          weights = cast<float>(interleave(bits & 15, bits >> 4));
        else
          weights = cast<float>(bits);
        // A step lies in one group.
        const Int group = step * depth / config.group;
        auto along = [&](const View<const T, 2> &values) {
          return expand(cast<float>(values.fix(1, group).tile(n).load(j)), 1);
        };
        if (config.zeros)
          weights = weights - along(zeroes);
        else if (packed)
          weights = weights - 8.0f;
        weights = weights * along(scales);
        sums = dot(left.load(i, step), trans(cast<T>(weights)), sums);
      }
      if (config.bias)
        sums = sums + expand(cast<float>(bias.tile(n).load(j)), 0);
      c.tile(m, n).store(i, j, activate(static_cast<Activation>(config.activation), sums));
    }};

void sampleCodes(const Invocation &, HostArray &array, std::mt19937_64 &random) {
  std::vector<double> values(static_cast<std::size_t>(array.count()));
  const bool packed = array.dtype == DType::uint8;
  std::uniform_int_distribution<int> codes(packed ? 0 : -127, packed ? 255 : 127);
  for (double &value : values)
    value = codes(random);
  array.assign(values);
}

void sampleScales(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  std::vector<double> values(static_cast<std::size_t>(array.count()));
  const double one = call.dtype("w") == DType::uint8 ? 1.0 / 8 : 1.0 / 128;
  std::uniform_real_distribution<double> scale(0.5 * one, 1.5 * one);
  for (double &value : values)
    value = scale(random);
  array.assign(values);
}

void sampleZeros(const Invocation &, HostArray &array, std::mt19937_64 &random) {
  std::vector<double> values(static_cast<std::size_t>(array.count()));
  std::uniform_int_distribution<int> zero(0, 15);
  for (double &value : values)
    value = zero(random);
  array.assign(values);
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
                  {.name = "activation",
                   .kind = OptionSpec::choice,
                   .initial = "none",
                   .choices = epilogueActivations(),
                   .doc = "the last step; gelu is the exact one"}};
  spec.config = {{"m", "rows of one program's tile"},
                 {"n", "columns of one program's tile"},
                 {"k", "depth of one step; divides `group`"},
                 {"order", "tile rows that neighbouring programs share"},
                 {"warps", "warps of one program"},
                 {"stages", "steps in flight"}};
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
  spec.defaults = [](const Invocation &call, const std::string &) {
    const std::int64_t group = call.options.integer("group");
    return Config{{"m", call.extent("M") <= 16 ? 16 : 64},
                  {"n", 64},
                  {"k", group % 64 == 0   ? 64
                        : group % 32 == 0 ? 32
                                          : 16},
                  {"order", 8},
                  {"warps", 4},
                  {"stages", 3}};
  };
  spec.spaces = {
      {.axes = {{"m", {16, 32, 64, 128}},
                {"n", {32, 64, 128}},
                {"k", {16, 32, 64, 128}},
                {"warps", {4, 8}},
                {"stages", {2, 3, 4}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t sums =
             config.at("m") * config.at("n") / (config.at("warps") * warpSize(target));
         return sums >= 4 && sums <= 64 && call.options.integer("group") % config.at("k") == 0;
       }}};
  spec.apply = [](Use &use) {
    const std::int64_t group = use.call.options.integer("group");
    if (group % use.field("k") != 0)
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
    const std::int64_t programs =
        ceilDiv(use.call.extent("M"), chosen.m) * ceilDiv(use.call.extent("N"), chosen.n);
    forDType<half, bfloat16>(use.call.dtype("a"), [&]<class T>(T) {
      forDType<std::uint8_t, std::int8_t>(use.call.dtype("w"), [&]<class Code>(Code) {
        use(quantizedMatmul<T, Code>, programs, use.tensor<T, 2>("a"), use.tensor<Code, 2>("w"),
            use.tensor<T, 2>("scales"), use.tensor<T, 2>("zeros"), use.tensor<T, 1>("bias"),
            use.tensor<T, 2>("c"), chosen);
      });
    });
  };
  return spec;
}
