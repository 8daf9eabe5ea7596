// The options of <sectile/recurrent.h> in calls by name.
#include "kernels/calls/TypedOptions.h"
#include <sectile/recurrent.h>

using namespace sectile;

namespace sectile {
static detail::ChoiceWords wordsOf(StateRule) { return {{"delta", "add", "mamba2", "rwkv7"}}; }
static detail::ChoiceWords wordsOf(DecayGate) { return {{"none", "softplus", "sigmoid"}}; }
static detail::ChoiceWords wordsOf(NormGate) { return {{"silu", "sigmoid"}, "activation"}; }
} // namespace sectile

template void detail::addOptions(TypedCall &, const CausalConvOptions &);
template void detail::addOptions(TypedCall &, const CausalConvUpdateOptions &);

void detail::addOptions(TypedCall &call, const RmsNormGatedOptions &options) {
  addFields(call, options);
  if (call.kernel == "rms_norm_gated_backward")
    call.options.erase("eps");
}

void detail::addOptions(TypedCall &call, const DeltaRuleOptions &options) {
  const bool isRwkv = options.rule == StateRule::rwkv7,
             byChannel = options.g && options.g->extents.size() == 4;
  addFields(call, options);
  if (isRwkv)
    call.options.erase("rule");
  if (isRwkv || byChannel)
    call.kernel.replace(0, std::string_view("delta_rule").size(), isRwkv ? "rwkv7" : "kda");
}

void detail::addOptions(TypedCall &call, const DeltaStepOptions &options) {
  addFields(call, options);
  if (options.rule == StateRule::rwkv7) {
    call.options.erase("rule");
    call.kernel = "rwkv7_step";
  }
  // They are an output.
  call.options["keep_states"] = call.inputs.erase("states") ? "true" : "false";
}
