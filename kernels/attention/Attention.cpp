// attention: o = softmax(scale q kT) v, never holding a whole row of scores.
#include "kernels/InputError.h"
#include "kernels/Use.h"
#include "kernels/attention/Family.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace sectile;

namespace {

struct AttentionConfig {
  int m = 64, n = 64, warps = 4, stages = 2;
  int width = 64; // D, up to the next multiple of 16
  bool causal = false;
};
SECTILE_CONFIG(AttentionConfig, m, n, warps, stages, width, causal)

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr double log2e = 1.4426950408889634;

template <class T>
Kernel attention{
    "attention", [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<T, 4> o,
                    View<float, 3> lse, Int groups, Float scale, const AttentionConfig &config) {
      const int m = config.m, n = config.n, width = config.width;
      auto head = program_id(1), batch = program_id(2), block = program_id(0);
      auto queries = q.extent(2), keys = k.extent(2);
      auto kHead = k.at(batch, head / groups), vHead = v.at(batch, head / groups);
      auto query = q.at(batch, head).tile(m, width).load(block, 0);
      auto keyTiles = kHead.tile(n, width), valueTiles = vHead.tile(n, width);

      auto row = block * m + arange(0, m);
      auto column = arange(0, n);
      // Key j is visible to query i where j <= i + keys - queries.
      auto last =
          config.causal ? minimum(keys, maximum(0, (block + 1) * m + keys - queries)) : keys;

      // The largest score so far, in units of log 2, and the sum and the output relative to it.
      auto largest = full<float>(-infinity, m);
      auto total = zeros<float>(m);
      auto output = zeros<float>(m, width);
      const auto unit = scale * static_cast<float>(log2e);
      for (auto step : range(0, cdiv(last, n))) {
        auto scores =
            dot(query, trans(keyTiles.load(step, 0)), zeros<float>(m, n), Precision::ieee) * unit;
        auto j = expand(step * n + column, 0);
        auto visible = j < keys;
        if (config.causal)
          scores = where(visible && j <= expand(row, 1) + (keys - queries), scores, -infinity);
        else
          scores = where(visible, scores, -infinity);
        auto before = largest;
        largest = maximum(largest, max(scores, 1));
        // A row that has seen no key yet has nothing to be relative to.
        auto base = where(largest == -infinity, 0.0f, largest);
        auto weights = exp2(scores - expand(base, 1));
        auto shrink = exp2(before - base);
        total = total * shrink + sum(weights, 1);
        output = dot(cast<T>(weights), valueTiles.load(step, 0), output * expand(shrink, 1),
                     Precision::ieee);
      }
      auto divisor = where(total == 0.0f, 1.0f, total);
      o.at(batch, head).tile(m, width).store(block, 0, output / expand(divisor, 1));
      auto logarithm = (largest + log2(total)) * static_cast<float>(1 / log2e);
      lse.at(batch, head).tile(m).store(block, where(total == 0.0f, -infinity, logarithm));
    }};

} // namespace

KernelSpec sectile::attentionSpec() {
  KernelSpec spec;
  spec.name = "attention";
  spec.summary = "o = softmax(scale q k^T) v, with the logarithms of the sums";
  spec.arguments = {
      {.name = "q",
       .axes = {"B", "Hq", "Sq", "D"},
       .dtypes = {DType::float16, DType::bfloat16, DType::float32},
       .doc = "queries; D from 16 to 256"},
      {.name = "k",
       .axes = {"B", "Hkv", "Sk", "D"},
       .like = "q",
       .doc = "keys; Hq is a multiple of Hkv"},
      {.name = "v", .axes = {"B", "Hkv", "Sk", "D"}, .like = "q", .doc = "values"},
      {.name = "o",
       .output = true,
       .axes = {"B", "Hq", "Sq", "D"},
       .like = "q",
       .doc = "0 in rows that see no key"},
      {.name = "lse",
       .output = true,
       .axes = {"B", "Hq", "Sq"},
       .dtypes = {DType::float32},
       .doc = "natural logarithm of each row's sum of exponentials"},
  };
  spec.options = {
      {.name = "causal",
       .kind = OptionSpec::flag,
       .initial = "false",
       .doc = "query i sees key j where j <= i + Sk - Sq"},
      {.name = "scale",
       .kind = OptionSpec::number,
       .initial = "",
       .doc = "of the scores; 1/sqrt(D) if not given"},
  };
  spec.config = {{"m", "queries of one program"},
                 {"n", "keys of one step"},
                 {"warps", "warps of one program"},
                 {"stages", "steps in flight"}};
  spec.typical = {{"B", 4}, {"Hq", 16}, {"Hkv", 16}, {"Sq", 2048}, {"Sk", 2048}, {"D", 64}};
  spec.small = {{"B", 2}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 40}, {"Sk", 50}, {"D", 32}};
  spec.check = [](const Invocation &call) {
    const std::int64_t heads = call.extent("Hq"), kvHeads = call.extent("Hkv"),
                       d = call.extent("D");
    if (kvHeads == 0 ? heads != 0 : heads % kvHeads != 0)
      throw InputError("attention: Hq, the heads of q (" + std::to_string(heads) +
                       "), must be a multiple of Hkv, those of k and v (" +
                       std::to_string(kvHeads) + ")");
    if (d < 16 || d > 256)
      throw InputError("attention: D is " + std::to_string(d) + ", but must be from 16 to 256");
  };
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    AttentionOptions options{.causal = call.options.flag("causal")};
    if (call.options.given("scale"))
      options.scale = call.options.number("scale");
    auto result = attentionReference(inputs[0], inputs[1], inputs[2], options, arithmetic);
    return std::vector{result.o, result.lse};
  };
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const std::int64_t d = call.extent("D");
    const bool wide = call.tensors[0].dtype == DType::float32;
    const bool large = d > 128 || wide || (d > 64 && !hasMatrixUnits(target));
    return Config{{"m", large ? 32 : 64},
                  {"n", d > 128 && wide ? 16
                        : large         ? 32
                                        : 64},
                  {"warps", 4},
                  {"stages", 2}};
  };
  spec.spaces = {
      {.axes = {{"m", {16, 32, 64, 128}},
                {"n", {16, 32, 64, 128}},
                {"warps", {4, 8}},
                {"stages", {1, 2, 3}}},
       // Scores and outputs of one thread.
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t threads = config.at("warps") * warpSize(target);
         const std::int64_t width = ceilDiv(call.extent("D"), 16) * 16;
         const std::int64_t numbers = config.at("m") * (config.at("n") + width) / threads;
         return config.at("m") >= 16 * (config.at("warps") / 4) && numbers <= 160;
       }}};
  spec.apply = [](Use &use) {
    const std::int64_t d = use.call.extent("D"), heads = use.call.extent("Hq");
    const AttentionConfig chosen{use.field("m"),
                                 use.field("n"),
                                 use.field("warps"),
                                 use.field("stages"),
                                 static_cast<int>(ceilDiv(d, 16) * 16),
                                 use.call.options.flag("causal")};
    const double scale = use.call.options.given("scale") ? use.call.options.number("scale")
                                                         : 1 / std::sqrt(static_cast<double>(d));
    const Grid grid(ceilDiv(use.call.extent("Sq"), chosen.m), heads, use.call.extent("B"));
    forDType<half, bfloat16, float>(use.call.dtype("q"), [&]<class T>(T) {
      use(attention<T>, grid, use.tensor<T, 4>("q"), use.tensor<T, 4>("k"), use.tensor<T, 4>("v"),
          use.tensor<T, 4>("o"), use.tensor<float, 3>("lse"),
          heads / std::max<std::int64_t>(use.call.extent("Hkv"), 1), static_cast<float>(scale),
          chosen);
    });
  };
  return spec;
}
