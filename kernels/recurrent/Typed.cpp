// The options of <sectile/recurrent.h> in calls by name.
#include "kernels/calls/TypedOptions.h"
#include <sectile/recurrent.h>

using namespace sectile;

namespace sectile {
static detail::ChoiceWords wordsOf(StateRule) { return {{"delta", "add", "mamba2", "rwkv7"}}; }
static detail::ChoiceWords wordsOf(DecayGate) { return {{"none", "softplus", "sigmoid"}}; }
static detail::ChoiceWords wordsOf(NormGate) { return {{"silu", "sigmoid"}, "activation"}; }
} // namespace sectile

SECTILE_TYPED_OPTIONS(CausalConvOptions, silu, b, initial_state, cu_seqlens)
SECTILE_TYPED_OPTIONS(CausalConvUpdateOptions, silu, b, indices, cu_seqlens)

void detail::addOptions(TypedCall &call, const RmsNormGatedOptions &options) {
  SECTILE_ADD_FIELDS(RmsNormGatedOptions, w, eps, gate, norm_before_gate);
  if (call.kernel == "rms_norm_gated_backward")
    call.options.erase("eps");
}

void detail::addOptions(TypedCall &call, const DeltaRuleOptions &options) {
  const bool isRwkv = options.rule == StateRule::rwkv7,
             byChannel = options.g && options.g->extents.size() == 4;
  SECTILE_ADD_FIELDS(DeltaRuleOptions, rule, g, scale, qk_l2norm, gate, lower_bound, A_log, dt_bias,
                     dt_min, dt_max, a, b, D, z, beta_sigmoid, allow_negative, initial_state,
                     state_vk, cu_seqlens);
  if (isRwkv)
    call.options.erase("rule");
  if (isRwkv || byChannel)
    call.kernel.replace(0, std::string_view("delta_rule").size(), isRwkv ? "rwkv7" : "kda");
}

void detail::addOptions(TypedCall &call, const DeltaStepOptions &options) {
  SECTILE_ADD_FIELDS(DeltaStepOptions, beta, g, gk, A_log, dt_bias, a, b, D, z, indices, rule,
                     scale, qk_l2norm, gate, lower_bound, dt_min, dt_max, beta_sigmoid,
                     allow_negative, state_kv, states);
  if (options.rule == StateRule::rwkv7) {
    call.options.erase("rule");
    call.kernel = "rwkv7_step";
  }
  // They are an output.
  call.options["keep_states"] = call.inputs.erase("states") ? "true" : "false";
}
