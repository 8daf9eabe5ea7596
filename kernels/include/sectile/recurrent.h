// Recurrences over time as functions on tensors with types. Each is the call by name
// (<sectile/library.h>) of the kernel that it is named after: it launches, does not wait, and
// throws LaunchError for arguments that the kernel does not take.
#pragma once
#include <sectile/kernels.h>

namespace sectile {

// How the logarithm of a step's decay is made of g; see docs/kernels/recurrent.md.
enum class DecayGate : std::uint8_t { none, softplus, sigmoid };

// Axes: T steps, Hv heads of values, N sequences, states of [K, V].
struct DeltaRuleOptions {
  std::optional<AnyTensor> g = {};     // [B, T, Hv] of floats
  std::optional<double> scale = {};    // of the queries; 1/sqrt(K) if none
  bool qk_l2norm = false;              // q and k are normalised
  std::optional<DecayGate> gate = {};  // softplus with A_log or dt_bias, else none, if none
  double lower_bound = -5;             // of DecayGate::sigmoid
  std::optional<AnyTensor> A_log = {}; // [Hv] of float
  std::optional<AnyTensor> dt_bias = {};
  bool beta_sigmoid = false;                   // sigmoid(beta) in place of beta
  bool allow_negative = false;                 // twice that
  std::optional<AnyTensor> initial_state = {}; // [N, Hv, K, V] of float
  bool state_vk = false;                       // states are [N, Hv, V, K]
  std::optional<AnyTensor> cu_seqlens = {};    // [N + 1] of std::int32_t; B is then 1
};
template <class T> struct DeltaRuleOutputs {
  Tensor<T, 4> o;               // [B, T, Hv, V]
  Tensor<float, 4> final_state; // [N, Hv, K, V]
};

namespace detail {
NamedTensors runDeltaRule(const Stream &stream, NamedTensors inputs,
                          const DeltaRuleOptions &options, const NamedTensors &outputs);
}

// The gated delta rule: q, k [B, T, Hk, K] and v [B, T, Hv, V] of half, bfloat16 or float, beta
// [B, T, Hv] of any of these.
template <class T>
DeltaRuleOutputs<std::remove_const_t<T>>
delta_rule(const Stream &stream, const Tensor<T, 4> &q, const detail::KernelInput<T, 4> &k,
           const detail::KernelInput<T, 4> &v, const AnyTensor &beta,
           const DeltaRuleOptions &options = {},
           const detail::KernelTo<DeltaRuleOutputs<std::remove_const_t<T>>> &to = {}) {
  NamedTensors given;
  if (to)
    given = {{"o", to->o}, {"final_state", to->final_state}};
  const NamedTensors out =
      detail::runDeltaRule(stream, {{"q", q}, {"k", k}, {"v", v}, {"beta", beta}}, options, given);
  return {out.at("o").template as<std::remove_const_t<T>, 4>(),
          out.at("final_state").as<float, 4>()};
}

} // namespace sectile
