// Sampling as functions on tensors with types. Each is the call by name (<sectile/library.h>) of
// the kernel that it is named after: it launches, does not wait, and throws LaunchError for
// arguments that the kernel does not take.
#pragma once
#include <sectile/kernels.h>

namespace sectile {

// Which tokens of a row may be drawn. Tensors hold a number for each row, in place of that above.
struct CutOptions {
  std::int64_t top_k = 0; // 0: all
  double top_p = 1;
  bool joint = false;                                // top_p is of all probabilities
  std::optional<AnyTensor> top_ks = {}, top_ps = {}; // [B] of std::int32_t, of floats
};
// What random numbers come from. Rows with seeds of their own draw whatever their place.
struct SeedOptions {
  std::uint64_t seed = 0;
  std::optional<AnyTensor> seeds = {}, offsets = {}; // [B] of std::int64_t
};
struct SampleOptions {
  double temperature = 1; // 0: the largest logit
  CutOptions cut = {};
  double min_p = 0;
  double repetition = 1, frequency = 0, presence = 0;      // of tokens that occurred
  std::optional<AnyTensor> temperatures = {}, min_ps = {}; // [B] of floats
  std::optional<AnyTensor> penalties = {};                 // [B, 3] of floats
  std::optional<AnyTensor> counts = {};     // [B, V] of std::int32_t; negative: in the prompt alone
  std::optional<AnyTensor> logit_bias = {}; // [1 or B, V] of floats
  std::optional<AnyTensor> bitmask = {};    // [1 or B, V / 32] of std::int32_t
  SeedOptions random = {};
  bool logprobs = false;
  // [B, any] of std::int32_t, -1 where a row has fewer; they add to counts.
  std::optional<AnyTensor> prompt_tokens = {}, output_tokens = {};
};
struct Sampled {
  Tensor<std::int32_t, 1> token; // [B]; -1 where a row has no distribution
  // With SampleOptions::logprobs. Rank 1 is the largest logit's.
  std::optional<Tensor<float, 1>> logprob = {};
  std::optional<Tensor<std::int32_t, 1>> rank = {};
};
struct VerifiedDrafts {
  Tensor<std::int32_t, 2> tokens;            // [B, N + 1], -1 behind the last
  Tensor<std::int32_t, 1> accepted, emitted; // [B]
};

// The next token of each row of logits [B, V], of half, bfloat16 or float.
template <class T>
Sampled sample(const Stream &stream, const Tensor<T, 2> &logits, const SampleOptions &options = {},
               const std::optional<Sampled> &to = {}) {
  return detail::callFor(stream, {"sample", {{"logits", logits}}}, options, to);
}

// The probabilities [B, V] that stay, divided by their sum; 0 for the others. `to` may be probs.
inline Tensor<float, 2> renormalize(const Stream &stream, const Tensor<const float, 2> &probs,
                                    const CutOptions &cut,
                                    const std::optional<Tensor<float, 2>> &to = {}) {
  return detail::callFor("y", stream, {"renormalize", {{"probs", probs}}}, cut, to);
}

// Which of the draft tokens [B, N] the target model keeps, by its probabilities [B, N + 1, V] and
// even numbers u [B, N], and the token after them. draft_probs [B, N, V] of floats are those that
// drafts were drawn from; without them drafts were certain.
inline VerifiedDrafts
speculative_verify(const Stream &stream, const Tensor<const std::int32_t, 2> &draft_tokens,
                   const Tensor<const float, 3> &target_probs, const Tensor<const float, 2> &u,
                   const std::optional<AnyTensor> &draft_probs = {}, const SeedOptions &random = {},
                   const std::optional<VerifiedDrafts> &to = {}) {
  detail::TypedCall call{
      "speculative_verify",
      {{"draft_tokens", draft_tokens}, {"target_probs", target_probs}, {"u", u}}};
  detail::addTensor(call.inputs, "draft_probs", draft_probs);
  return detail::callFor(stream, call, random, to);
}

} // namespace sectile
