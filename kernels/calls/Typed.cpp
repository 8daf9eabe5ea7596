// The typed functions of <sectile/kernels.h>, <sectile/serving.h>, <sectile/sampling.h> and
// <sectile/experts.h> as calls of the kernels by name.
#include <algorithm>
#include <charconv>
#include <sectile/experts.h>
#include <sectile/kernels.h>
#include <sectile/sampling.h>
#include <sectile/serving.h>

using namespace sectile;

namespace {

// With all digits.
std::string text(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

const char *text(bool value) { return value ? "true" : "false"; }

const char *nameOf(MatmulActivation activation) {
  switch (activation) {
  case MatmulActivation::none:
    return "none";
  case MatmulActivation::relu:
    return "relu";
  case MatmulActivation::relu_squared:
    return "relu_squared";
  case MatmulActivation::gelu:
    return "gelu";
  case MatmulActivation::gelu_tanh:
    return "gelu_tanh";
  case MatmulActivation::silu:
    return "silu";
  case MatmulActivation::sigmoid:
    return "sigmoid";
  case MatmulActivation::tanh:
    return "tanh";
  case MatmulActivation::softplus:
    return "softplus";
  }
  throw LaunchError("matmul: no such activation: " + std::to_string(static_cast<int>(activation)));
}

const char *nameOf(LossReduction reduction) {
  switch (reduction) {
  case LossReduction::mean:
    return "mean";
  case LossReduction::sum:
    return "sum";
  case LossReduction::none:
    return "none";
  }
  throw LaunchError("cross_entropy: no such reduction: " +
                    std::to_string(static_cast<int>(reduction)));
}

const char *nameOf(RopeScalingKind kind) {
  switch (kind) {
  case RopeScalingKind::none:
    return "none";
  case RopeScalingKind::linear:
    return "linear";
  case RopeScalingKind::dynamic:
    return "dynamic";
  case RopeScalingKind::llama3:
    return "llama3";
  case RopeScalingKind::yarn:
    return "yarn";
  }
  throw LaunchError("rope: no such scaling: " + std::to_string(static_cast<int>(kind)));
}

void addScaling(KernelOptions &words, const RopeScaling &scaling) {
  if (scaling.kind == RopeScalingKind::none)
    return;
  words["scaling"] = nameOf(scaling.kind);
  words["factor"] = text(scaling.factor);
  words["original_length"] = std::to_string(scaling.original_length);
  words["low_freq"] = text(scaling.low_freq);
  words["high_freq"] = text(scaling.high_freq);
  words["beta_fast"] = text(scaling.beta_fast);
  words["beta_slow"] = text(scaling.beta_slow);
  words["yarn_round"] = text(scaling.yarn_round);
  if (scaling.attention_factor)
    words["attention_factor"] = text(*scaling.attention_factor);
  if (scaling.length)
    words["length"] = std::to_string(*scaling.length);
}

const char *nameOf(MoeScoring scoring) {
  switch (scoring) {
  case MoeScoring::softmax:
    return "softmax";
  case MoeScoring::sigmoid:
    return "sigmoid";
  case MoeScoring::chosen:
    return "chosen";
  }
  throw LaunchError("moe_route: no such scoring: " + std::to_string(static_cast<int>(scoring)));
}

const char *nameOf(MoeGate gate) {
  switch (gate) {
  case MoeGate::none:
    return "none";
  case MoeGate::interleaved:
    return "interleaved";
  case MoeGate::concatenated:
    return "concatenated";
  }
  throw LaunchError("moe_up: no such gate: " + std::to_string(static_cast<int>(gate)));
}

void addCut(NamedTensors &inputs, KernelOptions &words, const CutOptions &cut) {
  words["top_k"] = std::to_string(cut.top_k);
  words["top_p"] = text(cut.top_p);
  words["order"] = cut.joint ? "joint" : "k_first";
  detail::addTensor(inputs, "top_ks", cut.top_ks);
  detail::addTensor(inputs, "top_ps", cut.top_ps);
}

void addSeeds(NamedTensors &inputs, KernelOptions &words, const SeedOptions &random) {
  words["seed"] = std::to_string(random.seed);
  detail::addTensor(inputs, "seeds", random.seeds);
  detail::addTensor(inputs, "offsets", random.offsets);
}

// By name a loss of one number has no axes.
void dropAxesOfOne(NamedTensors &tensors, const char *name) {
  const auto found = tensors.find(name);
  if (found == tensors.end())
    return;
  AnyTensor &tensor = found->second;
  if (std::all_of(tensor.extents.begin(), tensor.extents.end(), [](auto n) { return n == 1; })) {
    tensor.extents.clear();
    tensor.strides.clear();
  }
}

} // namespace

void detail::addTensor(NamedTensors &tensors, const char *name,
                       const std::optional<AnyTensor> &tensor) {
  if (tensor)
    tensors[name] = *tensor;
}

AnyTensor detail::runOne(const Stream &stream, const char *kernel, const NamedTensors &inputs,
                         const char *output, const std::optional<AnyTensor> &to) {
  NamedTensors given;
  addTensor(given, output, to);
  return run_kernel(stream, kernel, inputs, {}, given).at(output);
}

AnyTensor detail::runMatmul(const Stream &stream, const AnyTensor &a, const AnyTensor &b,
                            const MatmulOptions &options, const char *out,
                            const std::optional<AnyTensor> &to) {
  NamedTensors inputs{{"a", a}, {"b", b}}, given;
  addTensor(inputs, "bias", options.bias);
  addTensor(inputs, "residual", options.residual);
  addTensor(inputs, "row_scale", options.row_scale);
  addTensor(inputs, "column_scale", options.column_scale);
  addTensor(given, "c", to);
  KernelOptions words{{"trans_a", text(options.trans_a)},
                      {"activation", nameOf(options.activation)},
                      {"alpha", text(options.alpha)},
                      {"beta", text(options.beta)},
                      {"precision", options.exact ? "exact" : "tf32"},
                      {"schedule", options.stream_k ? "stream_k" : "tiles"},
                      {"out", out}};
  if (options.trans_b)
    words["trans_b"] = text(*options.trans_b);
  return run_kernel(stream, a.extents.size() == 3 ? "batched_matmul" : "matmul", inputs, words,
                    given)
      .at("c");
}

NamedTensors detail::runLayerNorm(const Stream &stream, NamedTensors inputs,
                                  const LayerNormOptions &options, bool backward,
                                  const NamedTensors &outputs) {
  addTensor(inputs, "w", options.w);
  addTensor(inputs, "b", options.b);
  if (backward)
    return run_kernel(stream, "layer_norm_backward", inputs, {}, outputs);
  return run_kernel(stream, "layer_norm", inputs, {{"eps", text(options.eps)}}, outputs);
}

NamedTensors detail::runRmsNorm(const Stream &stream, NamedTensors inputs,
                                const RmsNormOptions &options, const NamedTensors &outputs) {
  addTensor(inputs, "w", options.w);
  addTensor(inputs, "residual", options.residual);
  return run_kernel(stream, "rms_norm", inputs,
                    {{"eps", text(options.eps)}, {"weight_offset", text(options.weight_offset)}},
                    outputs);
}

NamedTensors detail::runRmsNormQuant(const Stream &stream, NamedTensors inputs,
                                     const RmsNormQuantOptions &options, DType codes,
                                     const NamedTensors &outputs) {
  addTensor(inputs, "w", options.w);
  addTensor(inputs, "residual", options.residual);
  KernelOptions words{{"eps", text(options.eps)},
                      {"weight_offset", text(options.weight_offset)},
                      {"out", std::string(name_of(codes))},
                      {"scale_format", options.power_of_two ? "power_of_two" : "f32"}};
  if (options.group) {
    words["granularity"] = "group";
    words["block"] = std::to_string(*options.group);
  }
  return run_kernel(stream, "rms_norm_quant", inputs, words, outputs);
}

NamedTensors detail::runRmsNormBackward(const Stream &stream, NamedTensors inputs,
                                        const RmsNormBackwardOptions &options,
                                        const NamedTensors &outputs) {
  addTensor(inputs, "w", options.w);
  addTensor(inputs, "h", options.h);
  addTensor(inputs, "dh", options.dh);
  return run_kernel(stream, "rms_norm_backward", inputs,
                    {{"weight_offset", text(options.weight_offset)}}, outputs);
}

NamedTensors detail::runCrossEntropy(const Stream &stream, NamedTensors inputs,
                                     const CrossEntropyOptions &options, bool backward,
                                     NamedTensors outputs) {
  const bool isReduced = options.reduction != LossReduction::none;
  const std::size_t axes = inputs.at("targets").extents.size();
  if (isReduced) {
    dropAxesOfOne(inputs, "dloss");
    dropAxesOfOne(outputs, "loss");
  }
  NamedTensors result =
      run_kernel(stream, backward ? "cross_entropy_backward" : "cross_entropy", inputs,
                 {{"reduction", nameOf(options.reduction)},
                  {"ignore_index", std::to_string(options.ignore_index)},
                  {"label_smoothing", text(options.label_smoothing)},
                  {"lse_square", text(options.lse_square)}},
                 outputs);
  if (const auto loss = result.find("loss"); isReduced && loss != result.end()) {
    loss->second.extents.assign(axes, 1);
    loss->second.strides.assign(axes, 1);
  }
  return result;
}

NamedTensors detail::runLinearCrossEntropy(const Stream &stream, NamedTensors inputs,
                                           const LinearCrossEntropyOptions &options,
                                           NamedTensors outputs) {
  const bool isReduced = options.reduction != LossReduction::none;
  if (isReduced)
    dropAxesOfOne(outputs, "loss");
  addTensor(inputs, "dloss", options.dloss);
  NamedTensors result = run_kernel(stream, "linear_cross_entropy", inputs,
                                   {{"reduction", nameOf(options.reduction)},
                                    {"ignore_index", std::to_string(options.ignore_index)},
                                    {"label_smoothing", text(options.label_smoothing)},
                                    {"lse_square", text(options.lse_square)},
                                    {"softcap", text(options.softcap)},
                                    {"scale", text(options.scale)}},
                                   outputs);
  if (const auto loss = result.find("loss"); isReduced && loss != result.end())
    loss->second.extents = loss->second.strides = {1};
  return result;
}

AnyTensor detail::runRope(const Stream &stream, bool backward, const AnyTensor &input,
                          const RopeOptions &options, const std::optional<AnyTensor> &to) {
  const char *const output = backward ? "dx" : "y";
  NamedTensors inputs{{backward ? "dy" : "x", input}}, given;
  addTensor(inputs, "positions", options.positions);
  addTensor(given, output, to);
  KernelOptions words{{"style", options.interleaved ? "interleaved" : "half"},
                      {"theta", text(options.theta)},
                      {"offset", std::to_string(options.offset)},
                      {"layout", options.bshd ? "bshd" : "bhsd"}};
  if (options.rotary)
    words["rotary"] = std::to_string(*options.rotary);
  addScaling(words, options.scaling);
  return run_kernel(stream, backward ? "rope_backward" : "rope", inputs, words, given).at(output);
}

NamedTensors detail::runConv2d(const Stream &stream, bool backward, NamedTensors inputs,
                               const Conv2dOptions &options, const NamedTensors &outputs) {
  addTensor(inputs, "b", options.b);
  return run_kernel(stream, backward ? "conv2d_backward" : "conv2d", inputs,
                    {{"layout", options.nhwc ? "nhwc" : "nchw"},
                     {"stride_h", std::to_string(options.stride_h)},
                     {"stride_w", std::to_string(options.stride_w)},
                     {"pad_h", std::to_string(options.pad_h)},
                     {"pad_w", std::to_string(options.pad_w)},
                     {"dilation_h", std::to_string(options.dilation_h)},
                     {"dilation_w", std::to_string(options.dilation_w)},
                     {"groups", std::to_string(options.groups)},
                     {"precision", options.exact ? "exact" : "tf32"}},
                    outputs);
}

void detail::runKvAppend(const Stream &stream, const NamedTensors &inputs,
                         const KvAppendOptions &options) {
  NamedTensors all = inputs;
  addTensor(all, "k_scale", options.k_scale);
  addTensor(all, "v_scale", options.v_scale);
  run_kernel(stream, "kv_append", all, {{"layout", options.nhd ? "nhd" : "hnd"}},
             {{"k_out", inputs.at("k_cache")}, {"v_out", inputs.at("v_cache")}});
}

AnyTensor detail::runRopeAppend(const Stream &stream, const NamedTensors &inputs,
                                const RopeAppendOptions &options,
                                const std::optional<AnyTensor> &to) {
  NamedTensors all = inputs,
               given{{"k_out", inputs.at("k_cache")}, {"v_out", inputs.at("v_cache")}};
  addTensor(all, "cos_sin", options.cos_sin);
  addTensor(all, "q_weight", options.q_weight);
  addTensor(all, "k_weight", options.k_weight);
  addTensor(all, "k_scale", options.k_scale);
  addTensor(all, "v_scale", options.v_scale);
  addTensor(given, "q_out", to);
  KernelOptions words{{"layout", options.nhd ? "nhd" : "hnd"},
                      {"style", options.interleaved ? "interleaved" : "half"},
                      {"theta", text(options.theta)},
                      {"eps", text(options.eps)},
                      {"weight_offset", text(options.weight_offset)}};
  if (options.rotary)
    words["rotary"] = std::to_string(*options.rotary);
  addScaling(words, options.scaling);
  return run_kernel(stream, "rope_append", all, words, given).at("q_out");
}

NamedTensors detail::runAttentionCached(const Stream &stream, NamedTensors inputs,
                                        const AttentionCachedOptions &options,
                                        const NamedTensors &to) {
  addTensor(inputs, "cu_seqlens_q", options.cu_seqlens_q);
  addTensor(inputs, "tree", options.tree);
  addTensor(inputs, "plan", options.plan);
  addTensor(inputs, "sinks", options.sinks);
  addTensor(inputs, "k_scale", options.k_scale);
  addTensor(inputs, "v_scale", options.v_scale);
  KernelOptions words{{"causal", text(options.causal)},
                      {"softcap", text(options.softcap)},
                      {"window_left", std::to_string(options.window_left.value_or(-1))},
                      {"window_right", std::to_string(options.window_right.value_or(-1))},
                      {"chunk", std::to_string(options.chunk)}};
  if (options.scale)
    words["scale"] = text(*options.scale);
  if (options.max_queries)
    words["max_queries"] = std::to_string(*options.max_queries);
  return run_kernel(stream, "attention_cached", inputs, words, to);
}

NamedTensors detail::runLatent(const Stream &stream, const char *kernel, NamedTensors inputs,
                               double scale, const LatentOptions &options, const NamedTensors &to) {
  addTensor(inputs, "sinks", options.sinks);
  addTensor(inputs, "cache_scale", options.cache_scale);
  addTensor(inputs, "cu_seqlens_q", options.cu_seqlens_q);
  addTensor(inputs, "plan", options.plan);
  addTensor(inputs, "lengths", options.lengths);
  KernelOptions words{{"scale", text(scale)}};
  if (options.latent)
    words["latent"] = std::to_string(*options.latent);
  if (!options.causal)
    words["causal"] = "false";
  if (options.max_queries)
    words["max_queries"] = std::to_string(*options.max_queries);
  return run_kernel(stream, kernel, inputs, words, to);
}

NamedTensors detail::runPagedSlots(const Stream &stream, const NamedTensors &inputs,
                                   std::int64_t page, std::int64_t tokens, const NamedTensors &to) {
  return run_kernel(stream, "paged_slots", inputs,
                    {{"page", std::to_string(page)}, {"tokens", std::to_string(tokens)}}, to);
}

NamedTensors detail::runSample(const Stream &stream, const AnyTensor &logits,
                               const SampleOptions &options, const NamedTensors &to) {
  NamedTensors inputs{{"logits", logits}};
  addTensor(inputs, "logit_bias", options.logit_bias);
  addTensor(inputs, "counts", options.counts);
  addTensor(inputs, "penalties", options.penalties);
  addTensor(inputs, "bitmask", options.bitmask);
  addTensor(inputs, "temperatures", options.temperatures);
  addTensor(inputs, "min_ps", options.min_ps);
  KernelOptions words{
      {"temperature", text(options.temperature)}, {"min_p", text(options.min_p)},
      {"repetition", text(options.repetition)},   {"frequency", text(options.frequency)},
      {"presence", text(options.presence)},       {"logprobs", text(options.logprobs)}};
  addCut(inputs, words, options.cut);
  addSeeds(inputs, words, options.random);
  return run_kernel(stream, "sample", inputs, words, to);
}

AnyTensor detail::runRenormalize(const Stream &stream, const AnyTensor &probs,
                                 const CutOptions &cut, const std::optional<AnyTensor> &to) {
  NamedTensors inputs{{"probs", probs}}, given;
  KernelOptions words;
  addCut(inputs, words, cut);
  addTensor(given, "y", to);
  return run_kernel(stream, "renormalize", inputs, words, given).at("y");
}

NamedTensors detail::runSpeculativeVerify(const Stream &stream, NamedTensors inputs,
                                          const std::optional<AnyTensor> &draftProbs,
                                          const SeedOptions &random, const NamedTensors &to) {
  KernelOptions words;
  addTensor(inputs, "draft_probs", draftProbs);
  addSeeds(inputs, words, random);
  return run_kernel(stream, "speculative_verify", inputs, words, to);
}

static KernelOptions wordsOf(const MoeRouteOptions &options) {
  return {{"k", std::to_string(options.k)},
          {"scoring", nameOf(options.scoring)},
          {"n_group", std::to_string(options.n_group)},
          {"topk_group", std::to_string(options.topk_group)},
          {"renormalize", text(options.renormalize)},
          {"scale", text(options.scale)}};
}

NamedTensors detail::runMoeRoute(const Stream &stream, const AnyTensor &logits,
                                 const MoeRouteOptions &options, const NamedTensors &to) {
  NamedTensors inputs{{"logits", logits}};
  addTensor(inputs, "bias", options.bias);
  return run_kernel(stream, "moe_route", inputs, wordsOf(options), to);
}

AnyTensor detail::runMoeRouteBackward(const Stream &stream, NamedTensors inputs,
                                      const MoeRouteOptions &options,
                                      const std::optional<AnyTensor> &to) {
  NamedTensors given;
  addTensor(given, "dlogits", to);
  return run_kernel(stream, "moe_route_backward", inputs, wordsOf(options), given).at("dlogits");
}

AnyTensor detail::runMoeCombine(const Stream &stream, NamedTensors inputs,
                                const MoeCombineOptions &options,
                                const std::optional<AnyTensor> &to) {
  NamedTensors given;
  addTensor(inputs, "weights", options.weights);
  addTensor(inputs, "addend", options.addend);
  addTensor(given, "y", to);
  return run_kernel(stream, "moe_combine", inputs, {}, given).at("y");
}

NamedTensors detail::runMoeCombineBackward(const Stream &stream, NamedTensors inputs,
                                           const MoeCombineOptions &options,
                                           const NamedTensors &to) {
  addTensor(inputs, "weights", options.weights);
  return run_kernel(stream, "moe_combine_backward", inputs, {}, to);
}

NamedTensors detail::runMoePermute(const Stream &stream, const AnyTensor &experts,
                                   const MoePermuteOptions &options, const NamedTensors &to) {
  return run_kernel(
      stream, "moe_permute", {{"experts", experts}},
      {{"count", std::to_string(options.count)}, {"first", std::to_string(options.first)}}, to);
}

AnyTensor detail::runMoeUp(const Stream &stream, NamedTensors inputs, const MoeUpOptions &options,
                           const std::optional<AnyTensor> &to) {
  NamedTensors given;
  addTensor(inputs, "bias", options.bias);
  addTensor(inputs, "x_scales", options.x_scales);
  addTensor(inputs, "w_scales", options.w_scales);
  addTensor(given, "h", to);
  KernelOptions words{
      {"gate", nameOf(options.gate)},         {"activation", nameOf(options.activation)},
      {"alpha", text(options.alpha)},         {"limit", text(options.limit)},
      {"up_offset", text(options.up_offset)}, {"precision", options.exact ? "exact" : "tf32"}};
  if (options.trans_w)
    words["trans_w"] = text(*options.trans_w);
  return run_kernel(stream, "moe_up", inputs, words, given).at("h");
}

AnyTensor detail::runMoeDown(const Stream &stream, NamedTensors inputs,
                             const MoeDownOptions &options, const std::optional<AnyTensor> &to) {
  NamedTensors given;
  addTensor(inputs, "bias", options.bias);
  addTensor(inputs, "addend", options.addend);
  addTensor(inputs, "h_scales", options.h_scales);
  addTensor(inputs, "w_scales", options.w_scales);
  addTensor(given, "y", to);
  KernelOptions words{{"precision", options.exact ? "exact" : "tf32"}};
  if (options.trans_w)
    words["trans_w"] = text(*options.trans_w);
  return run_kernel(stream, "moe_down", inputs, words, given).at("y");
}
