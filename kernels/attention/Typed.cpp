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

NamedTensors detail::runAttention(const Stream &stream, std::string_view kernel,
                                  NamedTensors inputs, const AttentionOptions &options) {
  KernelOptions words{{"layout", options.layout == AttentionLayout::bshd ? "bshd" : "bhsd"},
                      {"causal", options.causal ? "true" : "false"},
                      {"window_left", std::to_string(options.window_left.value_or(-1))},
                      {"window_right", std::to_string(options.window_right.value_or(-1))},
                      {"softcap", text(options.softcap)},
                      {"dropout", text(options.dropout)},
                      {"seed", std::to_string(options.seed)},
                      {"precision", options.exact ? "exact" : "tf32"}};
  if (options.scale)
    words["scale"] = text(*options.scale);
  for (const auto &[name, tensor] :
       {std::pair{"bias", &options.bias}, {"mask", &options.mask}, {"sinks", &options.sinks}})
    if (*tensor)
      inputs[name] = **tensor;
  return run_kernel(stream, kernel, inputs, words);
}
