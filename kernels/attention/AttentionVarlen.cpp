// attention_varlen: attention over sequences of different lengths, packed without gaps, each by
// itself with attention's formula. Packed as for FlashAttention's varlen functions (arXiv
// 2205.14135). cu_seqlens that fall or do not go from 0 to the number of tokens are refused from
// the host; on the device they give undefined results, but lead to no access outside the arrays.
#include "kernels/attention/Family.h"
#include "kernels/attention/OptionScores.h"
#include "kernels/attention/References.h"

using namespace sectile;

namespace {

template <class T>
Kernel attentionVarlen{
    "attention_varlen",
    [](flash::PackedForwardTensors<T> tensors, flash::Numbers numbers, View<const T, 3> bias,
       View<const bool, 3> mask, blockwise::OptionNumbers limits, const AttentionConfig &config) {
      const blockwise::OptionScores options(config, limits, bias, mask);
      flash::tracePackedForward<T>(config, tensors, numbers, options.modifier(), options);
    }};

} // namespace

std::vector<ArgumentSpec> sectile::varlenInputs() {
  const auto starts = [](const char *name, const char *total, bool limited, const char *of) {
    return ArgumentSpec{
        .name = name,
        .axes = {"B1"},
        .dtypes = {DType::int32},
        .sample =
            [total, limited](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
              auto values = array.as<std::int32_t>();
              const auto all = static_cast<std::uint64_t>(call.extent(total));
              for (std::int32_t &value : values)
                value = static_cast<std::int32_t>(random() % (all + 1));
              if (values.empty())
                return;
              values.front() = 0;
              values.back() = static_cast<std::int32_t>(all);
              std::sort(values.begin(), values.end());
              // No sequence is longer than bias and mask are wide, as far as that can be.
              if (!limited || !(call.has("bias") || call.has("mask")))
                return;
              const auto width =
                  static_cast<std::int32_t>(std::min(call.extent("Mk"), call.extent(total)));
              for (std::size_t i = 1; i + 1 < values.size(); ++i)
                values[i] = std::min(values[i], values[i - 1] + width);
              for (std::size_t i = values.size() - 1; --i > 0;)
                values[i] = std::max(values[i], values[i + 1] - width);
            },
        .doc = std::string("B + 1 numbers: sequence b's ") + of +
               " are those from element b up to, without it, element b + 1"};
  };
  return {{.name = "q",
           .axes = {"Tq", "Hq", "D"},
           .dtypes = {DType::float16, DType::bfloat16, DType::float32},
           .doc = "queries of all sequences; D and Dv from 16 to 256"},
          {.name = "k",
           .axes = {"Tk", "Hkv", "D"},
           .like = "q",
           .doc = "keys; Hq is a multiple of Hkv"},
          {.name = "v", .axes = {"Tk", "Hkv", "Dv"}, .like = "q", .doc = "values"},
          starts("cu_seqlens_q", "Tq", false, "queries"),
          starts("cu_seqlens_k", "Tk", true, "keys")};
}

std::vector<ArgumentSpec> sectile::varlenExtras() {
  std::vector<ArgumentSpec> extras = attentionExtras();
  extras[0].axes = extras[1].axes = {"1|Hq", "Tq", "Mk"};
  extras[0].doc = "added to the scaled and capped scores; key j of the query's sequence is column "
                  "j, so that Mk is at least the longest sequence of keys";
  extras[1].doc = "true where a query sees a key; columns as bias has them";
  return extras;
}

KernelSpec sectile::attentionVarlenSpec() {
  KernelSpec spec = oneBlockEach(attentionSpec());
  spec.name = "attention_varlen";
  spec.summary = "attention over packed sequences of different lengths";
  spec.arguments = varlenInputs();
  for (const ArgumentSpec &extra : varlenExtras())
    spec.arguments.push_back(extra);
  spec.arguments.push_back({.name = "o",
                            .output = true,
                            .axes = {"Tq", "Hq", "Dv"},
                            .like = "q",
                            .doc = "0 in rows that see no key"});
  spec.arguments.push_back({.name = "lse",
                            .output = true,
                            .axes = {"Hq", "Tq"},
                            .dtypes = {DType::float32},
                            .doc = "natural logarithm of each row's sum of exponentials"});
  spec.options = attentionOptions(false);
  spec.typical = {{"Tq", 8192}, {"Tk", 8192}, {"Hq", 16},   {"Hkv", 16}, {"D", 64},
                  {"Dv", 64},   {"B1", 9},    {"Mk", 2048}, {"R", 1}};
  spec.small = {{"Tq", 90}, {"Tk", 120}, {"Hq", 2},   {"Hkv", 1}, {"D", 32},
                {"Dv", 32}, {"B1", 6},   {"Mk", 120}, {"R", 3}};
  spec.check = checkVarlen;
  spec.contents = checkVarlenContents;
  spec.flops = nullptr; // only cu_seqlens knows
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    auto result = attentionVarlenReference(inputs[0], inputs[1], inputs[2], inputs[3], inputs[4],
                                           attentionSettings(call, inputs), arithmetic);
    return std::vector{result.o, result.lse};
  };
  spec.apply = [](Use &use) {
    using flash::detail::Launch;
    const Invocation &call = use.call;
    const std::array<std::int64_t, 3> perPair{call.extent("Hq"), call.extent("Tq"),
                                              extentOr0(call, "Mk")};
    const AttentionNumbers numbers(call);
    const OptionFlags flags = optionFlags(use, numbers);
    launchVarlen(use, numbers, modifiesScores(use, numbers), [&](Use &use, const Launch &launch) {
      for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
        use(attentionVarlen<T>, launch.grid,
            Arguments<flash::PackedForwardTensors<T>>{
                use.tensor<T, 3>("q"), use.tensor<T, 3>("k"), use.tensor<T, 3>("v"),
                use.tensor<std::int32_t, 1>("cu_seqlens_q"),
                use.tensor<std::int32_t, 1>("cu_seqlens_k"), use.tensor<T, 3>("o"),
                use.tensor<float, 2>("lse"), launch.sinks.as<const float, 2>()},
            launch.numbers, broadcast<T, 3>(use, "bias", perPair),
            broadcast<bool, 3>(use, "mask", perPair), optionNumbers(numbers),
            AttentionConfig{launch.config, flags});
      });
    });
  };
  return spec;
}

void sectile::launchVarlen(Use &use, const AttentionNumbers &numbers, bool modified,
                           const flash::detail::Launcher &launch) {
  const flash::LoopConfig chosen = forwardConfig(use, numbers, modified);
  launch(use, {.of = flash::detail::Launch::Of::all,
               .grid = Grid(packedBlocks(use.call, "Tq", chosen.m), use.call.extent("Hq")),
               .config = chosen,
               .numbers = launchNumbers(numbers, groupOf(use.call)),
               .sinks = sinksOf(use)});
}
