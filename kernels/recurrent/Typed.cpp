// The typed functions of <sectile/recurrent.h> as calls of the kernels by name.
#include <charconv>
#include <sectile/recurrent.h>

using namespace sectile;

namespace {

// With all digits.
std::string text(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}
const char *flag(bool value) { return value ? "true" : "false"; }
const char *nameOf(StateRule rule) {
  switch (rule) {
  case StateRule::delta:
    return "delta";
  case StateRule::add:
    return "add";
  case StateRule::mamba2:
    return "mamba2";
  case StateRule::rwkv7:
    return "rwkv7";
  }
  return "";
}
void addLimits(KernelOptions &words, const std::optional<double> &least,
               const std::optional<double> &most) {
  if (least)
    words["dt_min"] = text(*least);
  if (most)
    words["dt_max"] = text(*most);
}
const char *nameOf(DecayGate gate) {
  return gate == DecayGate::none ? "none" : gate == DecayGate::softplus ? "softplus" : "sigmoid";
}

} // namespace

NamedTensors detail::runCausalConv(const Stream &stream, bool backward, NamedTensors inputs,
                                   const CausalConvOptions &options, const NamedTensors &to) {
  addTensor(inputs, "b", options.b);
  addTensor(inputs, "initial_state", options.initial_state);
  addTensor(inputs, "cu_seqlens", options.cu_seqlens);
  return run_kernel(stream, backward ? "causal_conv1d_backward" : "causal_conv1d", inputs,
                    {{"activation", options.silu ? "silu" : "none"}}, to);
}

AnyTensor detail::runCausalConvUpdate(const Stream &stream, NamedTensors inputs,
                                      const CausalConvUpdateOptions &options,
                                      const std::optional<AnyTensor> &to) {
  addTensor(inputs, "b", options.b);
  addTensor(inputs, "indices", options.indices);
  addTensor(inputs, "cu_seqlens", options.cu_seqlens);
  NamedTensors given{{"state_out", inputs.at("state")}};
  addTensor(given, "y", to);
  return run_kernel(stream, "causal_conv1d_update", inputs,
                    {{"activation", options.silu ? "silu" : "none"}}, given)
      .at("y");
}

NamedTensors detail::runRmsNormGated(const Stream &stream, bool backward, NamedTensors inputs,
                                     const RmsNormGatedOptions &options, const NamedTensors &to) {
  addTensor(inputs, "w", options.w);
  KernelOptions words{{"activation", options.gate == NormGate::silu ? "silu" : "sigmoid"},
                      {"norm_before_gate", options.norm_before_gate ? "true" : "false"}};
  if (!backward)
    words["eps"] = text(options.eps);
  return run_kernel(stream, backward ? "rms_norm_gated_backward" : "rms_norm_gated", inputs, words,
                    to);
}

NamedTensors detail::runDeltaRule(const Stream &stream, bool backward, NamedTensors inputs,
                                  const DeltaRuleOptions &options, const NamedTensors &outputs) {
  const bool byChannel = options.g && options.g->extents.size() == 4;
  addTensor(inputs, "g", options.g);
  addTensor(inputs, "A_log", options.A_log);
  addTensor(inputs, "dt_bias", options.dt_bias);
  addTensor(inputs, "a", options.a);
  addTensor(inputs, "b", options.b);
  addTensor(inputs, "D", options.D);
  addTensor(inputs, "z", options.z);
  addTensor(inputs, "initial_state", options.initial_state);
  addTensor(inputs, "cu_seqlens", options.cu_seqlens);
  const bool isRwkv = options.rule == StateRule::rwkv7;
  KernelOptions words{{"qk_l2norm", flag(options.qk_l2norm)},
                      {"lower_bound", text(options.lower_bound)},
                      {"beta_sigmoid", flag(options.beta_sigmoid)},
                      {"allow_negative", flag(options.allow_negative)},
                      {"state_layout", options.state_vk ? "vk" : "kv"}};
  if (!isRwkv)
    words["rule"] = nameOf(options.rule);
  addLimits(words, options.dt_min, options.dt_max);
  if (options.scale)
    words["scale"] = text(*options.scale);
  if (options.gate)
    words["gate"] = nameOf(*options.gate);
  const std::string kernel = isRwkv ? "rwkv7" : byChannel ? "kda" : "delta_rule";
  return run_kernel(stream, backward ? kernel + "_backward" : kernel, inputs, words, outputs);
}

AnyTensor detail::runDeltaStep(const Stream &stream, NamedTensors inputs,
                               const DeltaStepOptions &options,
                               const std::optional<AnyTensor> &to) {
  NamedTensors given{{"state_out", inputs.at("state")}};
  addTensor(inputs, "beta", options.beta);
  addTensor(inputs, "g", options.g);
  addTensor(inputs, "gk", options.gk);
  addTensor(inputs, "A_log", options.A_log);
  addTensor(inputs, "dt_bias", options.dt_bias);
  addTensor(inputs, "D", options.D);
  addTensor(inputs, "z", options.z);
  addTensor(inputs, "indices", options.indices);
  addTensor(given, "o", to);
  addTensor(given, "states", options.states);
  KernelOptions words{{"rule", nameOf(options.rule)},
                      {"qk_l2norm", flag(options.qk_l2norm)},
                      {"lower_bound", text(options.lower_bound)},
                      {"beta_sigmoid", flag(options.beta_sigmoid)},
                      {"allow_negative", flag(options.allow_negative)},
                      {"state_layout", options.state_kv ? "kv" : "vk"},
                      {"keep_states", flag(options.states.has_value())}};
  addLimits(words, options.dt_min, options.dt_max);
  if (options.scale)
    words["scale"] = text(*options.scale);
  if (options.gate)
    words["gate"] = nameOf(*options.gate);
  return run_kernel(stream, "delta_step", inputs, words, given).at("o");
}
