// The options of <sectile/kernels.h>, <sectile/serving.h>, <sectile/sampling.h> and
// <sectile/experts.h> in calls by name.
#include "kernels/calls/TypedOptions.h"
#include <algorithm>
#include <charconv>
#include <sectile/experts.h>
#include <sectile/kernels.h>
#include <sectile/sampling.h>
#include <sectile/serving.h>

using namespace sectile;

namespace sectile {

static detail::ChoiceWords wordsOf(MatmulActivation) {
  return {
      {"none", "relu", "relu_squared", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "softplus"}};
}
static detail::ChoiceWords wordsOf(LossReduction) { return {{"mean", "sum", "none"}}; }
static detail::ChoiceWords wordsOf(RopeScalingKind) {
  return {{"none", "linear", "dynamic", "llama3", "yarn"}, "scaling"};
}
static detail::ChoiceWords wordsOf(MoeScoring) { return {{"softmax", "sigmoid", "chosen"}}; }
static detail::ChoiceWords wordsOf(MoeGate) { return {{"none", "interleaved", "concatenated"}}; }

} // namespace sectile

std::string detail::wordOf(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

void detail::addFlag(TypedCall &call, std::string_view field, bool value) {
  struct Choice {
    std::string_view field, option, yes, no;
  };
  static constexpr Choice choices[] = {{"exact", "precision", "exact", "tf32"},
                                       {"tf32", "precision", "tf32", "exact"},
                                       {"stream_k", "schedule", "stream_k", "tiles"},
                                       {"power_of_two", "scale_format", "power_of_two", "f32"},
                                       {"interleaved", "style", "interleaved", "half"},
                                       {"bshd", "layout", "bshd", "bhsd"},
                                       {"nhwc", "layout", "nhwc", "nchw"},
                                       {"nhd", "layout", "nhd", "hnd"},
                                       {"joint", "order", "joint", "k_first"},
                                       {"silu", "activation", "silu", "none"},
                                       {"state_vk", "state_layout", "vk", "kv"},
                                       {"state_kv", "state_layout", "kv", "vk"}};
  const auto choice = std::ranges::find(choices, field, &Choice::field);
  if (choice != std::end(choices))
    call.options.emplace(choice->option, value ? choice->yes : choice->no);
  else
    call.options.emplace(field, value ? "true" : "false");
}

void detail::addChoice(TypedCall &call, std::string_view field, const ChoiceWords &choice,
                       std::size_t value) {
  if (value >= choice.words.size())
    throw LaunchError(call.kernel + ": there is no such " + std::string(field) + ": " +
                      std::to_string(value));
  call.options.emplace(choice.option.empty() ? field : choice.option, choice.words[value]);
}

NamedTensors detail::runLoss(const Stream &stream, TypedCall call, LossReduction reduction,
                             NamedTensors given) {
  const std::size_t axes = call.inputs.at("targets").extents.size();
  const bool isReduced = reduction != LossReduction::none;
  // What is no single number stays as it is, and is refused.
  const auto dropAxes = [&](NamedTensors &tensors, const char *name) {
    if (const auto found = tensors.find(name); isReduced && found != tensors.end())
      if (AnyTensor &tensor = found->second;
          std::ranges::all_of(tensor.extents, [](auto n) { return n == 1; })) {
        tensor.extents.clear();
        tensor.strides.clear();
      }
  };
  if (call.kernel == "cross_entropy_backward")
    dropAxes(call.inputs, "dloss");
  dropAxes(given, "loss");
  NamedTensors result = run_kernel(stream, call.kernel, call.inputs, call.options, given);
  if (const auto loss = result.find("loss"); isReduced && loss != result.end()) {
    loss->second.extents.assign(axes, 1);
    loss->second.strides.assign(axes, 1);
  }
  return result;
}

template void detail::addOptions(TypedCall &, const MatmulOptions &);
void detail::addOptions(TypedCall &call, const LayerNormOptions &options) {
  addFields(call, options);
  if (call.kernel == "layer_norm_backward")
    call.options.erase("eps");
}
template void detail::addOptions(TypedCall &, const RmsNormOptions &);
void detail::addOptions(TypedCall &call, const RmsNormQuantOptions &options) {
  addFields(call, options);
  if (auto group = call.options.extract("group")) {
    group.key() = "block";
    call.options.insert(std::move(group));
    call.options["granularity"] = "group";
  }
}
template void detail::addOptions(TypedCall &, const RmsNormBackwardOptions &);
void detail::addOptions(TypedCall &call, const CrossEntropyOptions &options) {
  addFields(call, options);
  if (call.kernel == "cross_entropy_backward")
    call.options.erase("argmax");
}
template void detail::addOptions(TypedCall &, const LinearCrossEntropyOptions &);
void detail::addOptions(TypedCall &call, const RopeScaling &options) {
  if (options.kind == RopeScalingKind::none)
    return;
  addFields(call, options);
}
template void detail::addOptions(TypedCall &, const RopeOptions &);
template void detail::addOptions(TypedCall &, const Conv2dOptions &);

template void detail::addOptions(TypedCall &, const KvAppendOptions &);
template void detail::addOptions(TypedCall &, const RopeAppendOptions &);
template void detail::addOptions(TypedCall &, const AttentionCachedOptions &);
void detail::addOptions(TypedCall &call, const LatentOptions &options) {
  addFields(call, options);
  if (options.causal) // latent_sparse has no such option
    call.options.erase("causal");
}

template void detail::addOptions(TypedCall &, const CutOptions &);
template void detail::addOptions(TypedCall &, const SeedOptions &);
template void detail::addOptions(TypedCall &, const SampleOptions &);

void detail::addOptions(TypedCall &call, const MoeRouteOptions &options) {
  addFields(call, options);
  if (call.kernel == "moe_route_backward")
    call.inputs.erase("bias");
}
template void detail::addOptions(TypedCall &, const MoePermuteOptions &);
template void detail::addOptions(TypedCall &, const MoeUpOptions &);
template void detail::addOptions(TypedCall &, const MoeDownOptions &);
void detail::addOptions(TypedCall &call, const MoeCombineOptions &options) {
  addFields(call, options);
  if (call.kernel == "moe_combine_backward")
    call.inputs.erase("addend");
}
