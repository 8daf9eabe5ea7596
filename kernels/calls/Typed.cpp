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

SECTILE_TYPED_OPTIONS(MatmulOptions, trans_a, trans_b, activation, alpha, beta, exact, stream_k,
                      bias, residual, row_scale, column_scale)
void detail::addOptions(TypedCall &call, const LayerNormOptions &options) {
  SECTILE_ADD_FIELDS(LayerNormOptions, w, b, eps);
  if (call.kernel == "layer_norm_backward")
    call.options.erase("eps");
}
SECTILE_TYPED_OPTIONS(RmsNormOptions, w, residual, eps, weight_offset)
void detail::addOptions(TypedCall &call, const RmsNormQuantOptions &options) {
  SECTILE_ADD_FIELDS(RmsNormQuantOptions, w, residual, eps, weight_offset, group, power_of_two);
  if (auto group = call.options.extract("group")) {
    group.key() = "block";
    call.options.insert(std::move(group));
    call.options["granularity"] = "group";
  }
}
SECTILE_TYPED_OPTIONS(RmsNormBackwardOptions, w, h, dh, weight_offset)
SECTILE_TYPED_OPTIONS(CrossEntropyOptions, reduction, ignore_index, label_smoothing, lse_square)
SECTILE_TYPED_OPTIONS(LinearCrossEntropyOptions, reduction, ignore_index, label_smoothing,
                      lse_square, softcap, scale, dloss)
void detail::addOptions(TypedCall &call, const RopeScaling &options) {
  if (options.kind == RopeScalingKind::none)
    return;
  SECTILE_ADD_FIELDS(RopeScaling, kind, factor, original_length, low_freq, high_freq, beta_fast,
                     beta_slow, yarn_round, attention_factor, length);
}
SECTILE_TYPED_OPTIONS(RopeOptions, interleaved, theta, rotary, offset, bshd, positions, scaling)
SECTILE_TYPED_OPTIONS(Conv2dOptions, nhwc, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
                      groups, exact, b)

SECTILE_TYPED_OPTIONS(KvAppendOptions, nhd, k_scale, v_scale)
SECTILE_TYPED_OPTIONS(RopeAppendOptions, nhd, interleaved, theta, rotary, scaling, eps,
                      weight_offset, cos_sin, q_weight, k_weight, k_scale, v_scale)
SECTILE_TYPED_OPTIONS(AttentionCachedOptions, causal, scale, softcap, window_left, window_right,
                      chunk, max_queries, cu_seqlens_q, tree, plan, sinks, k_scale, v_scale)
void detail::addOptions(TypedCall &call, const LatentOptions &options) {
  SECTILE_ADD_FIELDS(LatentOptions, latent, sinks, cache_scale, causal, max_queries, cu_seqlens_q,
                     plan, lengths);
  if (options.causal) // latent_sparse has no such option
    call.options.erase("causal");
}

SECTILE_TYPED_OPTIONS(CutOptions, top_k, top_p, joint, top_ks, top_ps)
SECTILE_TYPED_OPTIONS(SeedOptions, seed, seeds, offsets)
SECTILE_TYPED_OPTIONS(SampleOptions, temperature, cut, min_p, repetition, frequency, presence,
                      temperatures, min_ps, penalties, counts, logit_bias, bitmask, random,
                      logprobs)

void detail::addOptions(TypedCall &call, const MoeRouteOptions &options) {
  SECTILE_ADD_FIELDS(MoeRouteOptions, k, scoring, bias, n_group, topk_group, renormalize, scale);
  if (call.kernel == "moe_route_backward")
    call.inputs.erase("bias");
}
SECTILE_TYPED_OPTIONS(MoePermuteOptions, count, first)
SECTILE_TYPED_OPTIONS(MoeUpOptions, gate, activation, alpha, limit, up_offset, bias, trans_w, exact,
                      x_scales, w_scales)
SECTILE_TYPED_OPTIONS(MoeDownOptions, bias, addend, trans_w, exact, h_scales, w_scales)
void detail::addOptions(TypedCall &call, const MoeCombineOptions &options) {
  SECTILE_ADD_FIELDS(MoeCombineOptions, weights, addend);
  if (call.kernel == "moe_combine_backward")
    call.inputs.erase("addend");
}
