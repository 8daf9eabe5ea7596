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
    "attention_varlen", [](flash::PackedForwardTensors<T> tensors, flash::Numbers numbers,
                           blockwise::OptionArguments<T, 3> given, const AttentionConfig &config) {
      const blockwise::OptionScores options(config, given);
      flash::tracePackedForward<T>(config, tensors, numbers, options.modifier(), options);
    }};

// Where the sequences of queries begin, or those of keys.
ArgumentRow startsArgument(const std::string &name, const char *total, const std::string &what) {
  const auto sample = [=](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
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
    if (what != "keys" || !(call.has("bias") || call.has("mask")))
      return;
    const auto width = static_cast<std::int32_t>(std::min(call.extent("Mk"), call.extent(total)));
    for (std::size_t i = 1; i + 1 < values.size(); ++i)
      values[i] = std::min(values[i], values[i - 1] + width);
    for (std::size_t i = values.size() - 1; --i > 0;)
      values[i] = std::max(values[i], values[i + 1] - width);
  };
  return {name + ": [B1] i32",
          "B + 1 numbers: sequence b's " + what +
              " are those from element b up to, without it, element b + 1",
          {.sample = sample}};
}

} // namespace

KernelSpec sectile::attentionVarlenSpec() {
  KernelSpec spec = blockAttentionSpec();
  spec.name = "attention_varlen";
  spec.summary = "attention over packed sequences of different lengths";
  spec.arguments.clear();
  spec.add_arguments(
      {{"q: [Tq, Hq, D] f16|bf16|f32", "queries of all sequences; D and Dv from 16 to 256"},
       {"k: [Tk, Hkv, D] like q", "keys; Hq is a multiple of Hkv"},
       {"v: [Tk, Hkv, Dv] like q", "values"},
       startsArgument("cu_seqlens_q", "Tq", "queries"),
       startsArgument("cu_seqlens_k", "Tk", "keys"),
       {"bias?: [1|Hq, Tq, Mk] like q",
        "added to the scaled and capped scores; key j of the query's sequence is column j, so that "
        "Mk is at least the longest sequence of keys"},
       {"mask?: [1|Hq, Tq, Mk] bool",
        "true where a query sees a key; columns as bias has them",
        {.sample = sampleMask}},
       sinksArgument,
       seedOffsetArgument(),
       {"-> o: [Tq, Hq, Dv] like q", "0 in rows that see no key"},
       {"-> lse: [Hq, Tq] f32", "natural logarithm of each row's sum of exponentials"}});
  spec.options.pop_back(); // packed sequences have one layout
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
    const AttentionNumbers numbers(use.call);
    const OptionFlags flags = optionFlags(use, numbers);
    launchVarlen(use, numbers, modifiesScores(use, numbers), [&](Use &use, const Launch &launch) {
      for_dtype<half, bfloat16, float>(use.call.dtype("q"), [&]<class T>(T) {
        use(attentionVarlen<T>, launch.grid,
            Arguments<flash::PackedForwardTensors<T>>{
                use.tensor<T, 3>("q"), use.tensor<T, 3>("k"), use.tensor<T, 3>("v"),
                use.tensor<std::int32_t, 1>("cu_seqlens_q"),
                use.tensor<std::int32_t, 1>("cu_seqlens_k"), use.tensor<T, 3>("o"),
                use.tensor<float, 2>("lse"), launch.sinks.as<const float, 2>()},
            launch.numbers, optionArguments<T, 3>(use, numbers),
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
               .numbers = launchNumbers(use, numbers, groupOf(use.call)),
               .sinks = sinksOf(use)});
}
