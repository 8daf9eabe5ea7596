// The typed functions of <sectile/attention.h> as calls of the kernels by name.
#include <charconv>
#include <sectile/attention.h>

using namespace sectile;

namespace {

// With all digits.
std::string text(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

} // namespace

NamedTensors detail::runAttention(const Stream &stream, bool backward, int axes,
                                  NamedTensors inputs, const AttentionOptions &options,
                                  const NamedTensors &outputs) {
  const bool packed = axes == 3;
  if (packed != options.cu_seqlens_q.has_value() || packed != options.cu_seqlens_k.has_value())
    throw LaunchError(packed
                          ? "attention: q, k and v of three axes are packed sequences, and need "
                            "cu_seqlens_q and cu_seqlens_k"
                          : "attention: cu_seqlens_q and cu_seqlens_k go with packed sequences: q, "
                            "k and v of three axes");
  KernelOptions words{{"causal", options.causal ? "true" : "false"},
                      {"window_left", std::to_string(options.window_left.value_or(-1))},
                      {"window_right", std::to_string(options.window_right.value_or(-1))},
                      {"softcap", text(options.softcap)},
                      {"dropout", text(options.dropout)},
                      {"seed", std::to_string(options.seed)},
                      {"precision", options.tf32 ? "tf32" : "exact"}};
  if (!packed)
    words["layout"] = options.layout == AttentionLayout::bshd ? "bshd" : "bhsd";
  else if (options.layout != AttentionLayout::bhsd)
    throw LaunchError("attention: packed sequences have one layout, [T, H, D]");
  if (backward && !packed)
    words["unordered"] = options.unordered ? "true" : "false";
  if (options.scale)
    words["scale"] = text(*options.scale);
  for (const auto &[name, tensor] : {std::pair{"bias", &options.bias},
                                     {"mask", &options.mask},
                                     {"sinks", &options.sinks},
                                     {"cu_seqlens_q", &options.cu_seqlens_q},
                                     {"cu_seqlens_k", &options.cu_seqlens_k}})
    if (*tensor)
      inputs[name] = **tensor;
  if (options.seed_offset)
    inputs["seed_offset"] = *options.seed_offset;
  const std::string kernel = packed ? "attention_varlen" : "attention";
  return run_kernel(stream, backward ? kernel + "_backward" : kernel, inputs, words, outputs);
}
