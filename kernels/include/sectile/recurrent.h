// The parts of layers with linear attention and state spaces as functions on tensors with types.
// Each is the call by name (<sectile/library.h>) of the kernel that it is named after: it launches,
// does not wait, and throws LaunchError for arguments that the kernel does not take.
#pragma once
#include <sectile/kernels.h>

namespace sectile {

// How the logarithm of a step's decay is made of g; see docs/kernels/recurrent.md.
enum class DecayGate : std::uint8_t { none, softplus, sigmoid };

// What a step adds along its key: beta (v - S^T k), beta v, or that with beta = softplus(g +
// dt_bias); rwkv7 adds beta v, and b (a^T S) of the state before the step.
enum class StateRule : std::uint8_t { delta, add, mamba2, rwkv7 };

// Axes: T steps, Hv heads of values, N sequences, states of [K, V].
struct DeltaRuleOptions {
  StateRule rule = StateRule::delta;
  std::optional<AnyTensor> g = {};     // [B, T, Hv] or, by channels, [B, T, Hv, K] of floats
  std::optional<double> scale = {};    // of the queries; if none 1/sqrt(K), with mamba2, rwkv7 1
  bool qk_l2norm = false;              // q and k are normalised
  std::optional<DecayGate> gate = {};  // softplus with A_log, dt_bias or mamba2, else none, if none
  double lower_bound = -5;             // of DecayGate::sigmoid
  std::optional<AnyTensor> A_log = {}; // [Hv] of float
  std::optional<AnyTensor> dt_bias = {};          // [Hv], where g is by channels [Hv, K], of float
  std::optional<double> dt_min = {}, dt_max = {}; // limits of softplus
  std::optional<AnyTensor> a = {}, b = {};        // [B, T, Hk, K] as k, of rule rwkv7
  std::optional<AnyTensor> D = {};                // [Hv] of float: D v is added to o
  std::optional<AnyTensor> z = {};                // as v: o is multiplied by silu(z)
  bool beta_sigmoid = false;                      // sigmoid(beta) in place of beta
  bool allow_negative = false;                    // twice that
  std::optional<AnyTensor> initial_state = {};    // [N, Hv, K, V] of float
  bool state_vk = false;                          // states are [N, Hv, V, K]
  std::optional<AnyTensor> cu_seqlens = {};       // [N + 1] of std::int32_t; B is then 1
};
template <class T> struct DeltaRuleOutputs {
  Tensor<T, 4> o;               // [B, T, Hv, V]
  Tensor<float, 4> final_state; // [N, Hv, K, V]
};

// None of inputs that are not given.
template <class T> struct DeltaRuleGradients {
  Tensor<T, 4> dq, dk, dv;
  std::optional<AnyTensor> dbeta = {}, dg = {}; // as beta, g
  std::optional<Tensor<float, 1>> dA_log = {};
  std::optional<AnyTensor> ddt_bias = {}; // as dt_bias
  std::optional<Tensor<T, 4>> da = {}, db = {};
  std::optional<Tensor<float, 1>> dD = {};
  std::optional<Tensor<T, 4>> dz = {};
  std::optional<Tensor<float, 4>> dinitial_state = {};
};

namespace detail {
// The call is of the kernel that the options want.
void addOptions(TypedCall &call, const DeltaRuleOptions &options);
} // namespace detail

// The gated delta rule, and with StateRule::mamba2 q, k, v being its C, B, x: q, k [B, T, Hk, K]
// and v [B, T, Hv, V] of half, bfloat16 or float, beta [B, T, Hv] of any of these; 1 if it is none.
template <class T>
DeltaRuleOutputs<std::remove_const_t<T>>
delta_rule(const Stream &stream, const Tensor<T, 4> &q, const detail::KernelInput<T, 4> &k,
           const detail::KernelInput<T, 4> &v, const std::optional<AnyTensor> &beta = {},
           const DeltaRuleOptions &options = {},
           const detail::KernelTo<DeltaRuleOutputs<std::remove_const_t<T>>> &to = {}) {
  detail::TypedCall call{"delta_rule", {{"q", q}, {"k", k}, {"v", v}}};
  detail::addTensor(call.inputs, "beta", beta);
  return detail::callFor(stream, call, options, to);
}

// Its gradients for dO [B, T, Hv, V], and dfinal_state where the final state has a gradient. Of
// `to`, gradients that are none are allocated.
template <class T>
DeltaRuleGradients<std::remove_const_t<T>>
delta_rule_backward(const Stream &stream, const Tensor<T, 4> &q, const detail::KernelInput<T, 4> &k,
                    const detail::KernelInput<T, 4> &v, const std::optional<AnyTensor> &beta,
                    const detail::KernelInput<T, 4> &dO, const DeltaRuleOptions &options = {},
                    const std::optional<AnyTensor> &dfinal_state = {},
                    const detail::KernelTo<DeltaRuleGradients<std::remove_const_t<T>>> &to = {}) {
  detail::TypedCall call{"delta_rule_backward", {{"q", q}, {"k", k}, {"v", v}, {"do", dO}}};
  detail::addTensor(call.inputs, "beta", beta);
  detail::addTensor(call.inputs, "dfinal_state", dfinal_state);
  return detail::callFor(stream, call, options, to);
}

// Causal convolution along time ------------------------------------------------------------------

struct CausalConvOptions {
  bool silu = true;                            // of the sums
  std::optional<AnyTensor> b = {};             // [D], elements as those of x
  std::optional<AnyTensor> initial_state = {}; // [N, D, W - 1]: what comes before the sequences
  // [N + 1] of std::int32_t: x [1, T, D] is N sequences, s being the steps cu_seqlens[s] to
  // cu_seqlens[s + 1] - 1. Without it each of B is one.
  std::optional<AnyTensor> cu_seqlens = {};
};
template <class T> struct CausalConvOutputs {
  Tensor<T, 3> y;           // [B, T, D]
  Tensor<T, 3> final_state; // [N, D, W - 1]: the last inputs of each sequence
};
template <class T> struct CausalConvGradients {
  Tensor<T, 3> dx;
  Tensor<T, 2> dw;
  std::optional<Tensor<T, 1>> db = {};             // where there is b
  std::optional<Tensor<T, 3>> dinitial_state = {}; // where there is initial_state
};
struct CausalConvUpdateOptions {
  bool silu = true;
  std::optional<AnyTensor> b = {};
  std::optional<AnyTensor> indices = {};    // [N] of std::int32_t: rows of the pool; negative: none
  std::optional<AnyTensor> cu_seqlens = {}; // as above
};

// y[t] = silu(b + sum over j of w[W - 1 - j] x[t - j]) of each channel: x [B, T, D] of half,
// bfloat16 or float, w [D, W] with 2 to 4 taps, that of the step itself last.
template <class T>
CausalConvOutputs<std::remove_const_t<T>>
causal_conv1d(const Stream &stream, const Tensor<T, 3> &x, const detail::KernelInput<T, 2> &w,
              const CausalConvOptions &options = {},
              const detail::KernelTo<CausalConvOutputs<std::remove_const_t<T>>> &to = {}) {
  return detail::callFor(stream, {"causal_conv1d", {{"x", x}, {"w", w}}}, options, to);
}

// Given the gradient of y, and of final_state if it has one.
template <class T>
CausalConvGradients<std::remove_const_t<T>> causal_conv1d_backward(
    const Stream &stream, const Tensor<T, 3> &x, const detail::KernelInput<T, 2> &w,
    const detail::KernelInput<T, 3> &dy, const CausalConvOptions &options = {},
    const std::type_identity_t<std::optional<Tensor<const std::remove_const_t<T>, 3>>>
        &dfinal_state = {},
    const detail::KernelTo<CausalConvGradients<std::remove_const_t<T>>> &to = {}) {
  detail::TypedCall call{"causal_conv1d_backward", {{"x", x}, {"w", w}, {"dy", dy}}};
  detail::addTensor(call.inputs, "dfinal_state", dfinal_state);
  return detail::callFor(stream, call, options, to);
}

// causal_conv1d of new steps x [B, T, D], with what comes before them in rows of state
// [P, D, W - 1], which it replaces by what comes before the next ones.
template <class T>
detail::KernelOutput<T, 3> causal_conv1d_update(
    const Stream &stream, const Tensor<T, 3> &x, const detail::KernelInput<T, 2> &w,
    const Tensor<std::remove_const_t<T>, 3> &state, const CausalConvUpdateOptions &options = {},
    const detail::KernelTo<detail::KernelOutput<T, 3>> &to = {}) {
  return detail::callFor("y", stream,
                         {"causal_conv1d_update", {{"x", x}, {"w", w}, {"state", state}}}, options,
                         to, {{"state_out", state}});
}

// Steps of linear attention and state spaces -----------------------------------------------------

using DeltaStepRule = StateRule;
struct DeltaStepOptions {
  std::optional<AnyTensor> beta = {};      // [B, T, Hv] of float, half or bfloat16
  std::optional<AnyTensor> g = {};         // the same, of rule rwkv7 [B, T, Hv, K]
  std::optional<AnyTensor> gk = {};        // [B, T, Hv, K] of float: added to g's logarithm
  std::optional<AnyTensor> A_log = {};     // [Hv] of float
  std::optional<AnyTensor> dt_bias = {};   // [Hv], of rule rwkv7 [Hv, K], of float
  std::optional<AnyTensor> a = {}, b = {}; // [B, T, Hk, K] as k, of rule rwkv7, which has no gk
  std::optional<AnyTensor> D = {};         // [Hv] of float: D v is added to o
  std::optional<AnyTensor> z = {};         // as v: o is multiplied by silu(z)
  std::optional<AnyTensor> indices = {};   // [B] of std::int32_t: rows of the pool; negative: none
  DeltaStepRule rule = DeltaStepRule::delta;
  std::optional<double> scale = {};   // of the queries; if none 1/sqrt(K), with mamba2, rwkv7 1
  bool qk_l2norm = false;             // q and k are divided by their lengths
  std::optional<DecayGate> gate = {}; // softplus with A_log, dt_bias or mamba2, else none
  double lower_bound = -5;
  std::optional<double> dt_min = {}, dt_max = {};    // limits of softplus
  bool beta_sigmoid = false, allow_negative = false; // sigmoid(beta) for beta; twice that
  bool state_kv = false;                             // states are [P, Hv, K, V]
  std::optional<AnyTensor> states = {}; // [B, T, Hv, V, K]: gets the state after each step
};

namespace detail {
void addOptions(TypedCall &call, const DeltaStepOptions &options);
} // namespace detail

// T new steps of B sequences: q, k [B, T, Hk, K] and v [B, T, Hv, V] of half, bfloat16 or float,
// with the states [V, K] of their heads in rows of state [P, Hv, V, K], of float or bfloat16, which
// it changes. Gives o as v.
template <class T, class S>
detail::KernelOutput<T, 4> delta_step(const Stream &stream, const Tensor<T, 4> &q,
                                      const detail::KernelInput<T, 4> &k,
                                      const detail::KernelInput<T, 4> &v, const Tensor<S, 4> &state,
                                      const DeltaStepOptions &options = {},
                                      const detail::KernelTo<detail::KernelOutput<T, 4>> &to = {}) {
  NamedTensors given{{"state_out", state}};
  detail::addTensor(given, "states", options.states);
  return detail::callFor("o", stream,
                         {"delta_step", {{"q", q}, {"k", k}, {"v", v}, {"state", state}}}, options,
                         to, given);
}

// RMS norms with a gate --------------------------------------------------------------------------

enum class NormGate : std::uint8_t { silu, sigmoid };
struct RmsNormGatedOptions {
  std::optional<AnyTensor> w = {}; // [N], elements as those of x
  double eps = 1e-6;
  NormGate gate = NormGate::silu;
  bool norm_before_gate = true; // else x times the gate is normalised, as in Mamba-2
};
template <class T, int N> struct RmsNormGatedOutputs {
  Tensor<T, N> y;
  Tensor<float, N - 1> rstd;
};
template <class T, int N> struct RmsNormGatedGradients {
  Tensor<T, N> dx, dz;
  std::optional<Tensor<T, 1>> dw = {}; // where there is w
};

namespace detail {
void addOptions(TypedCall &call, const RmsNormGatedOptions &options);
} // namespace detail

// y = x rstd w gate(z) along the last axis; rows [..., N] of half, bfloat16 or float.
template <class T, int N>
  requires(N >= 2)
RmsNormGatedOutputs<std::remove_const_t<T>, N>
rms_norm_gated(const Stream &stream, const Tensor<T, N> &x, const detail::KernelInput<T, N> &z,
               const RmsNormGatedOptions &options = {},
               const detail::KernelTo<RmsNormGatedOutputs<std::remove_const_t<T>, N>> &to = {}) {
  return detail::callFor(stream, {"rms_norm_gated", {{"x", x}, {"z", z}}}, options, to);
}

// Given rms_norm_gated's rstd and the gradient of y. eps is not used.
template <class T, int N>
  requires(N >= 2)
RmsNormGatedGradients<std::remove_const_t<T>, N> rms_norm_gated_backward(
    const Stream &stream, const Tensor<T, N> &x, const detail::KernelInput<T, N> &z,
    const detail::KernelInput<float, N - 1> &rstd, const detail::KernelInput<T, N> &dy,
    const RmsNormGatedOptions &options = {},
    const detail::KernelTo<RmsNormGatedGradients<std::remove_const_t<T>, N>> &to = {}) {
  return detail::callFor(
      stream, {"rms_norm_gated_backward", {{"x", x}, {"z", z}, {"rstd", rstd}, {"dy", dy}}},
      options, to);
}

} // namespace sectile
