// Attention and its gradients on tensors with types: the library's kernels `attention`,
// `attention_varlen` and their gradients.
#pragma once
#include <sectile/typed_call.h>

namespace sectile {

// The order of the axes of q, k, v, o and their gradients. Strides may be any in both.
enum class AttentionLayout { bhsd, bshd };

struct AttentionOptions {
  AttentionLayout layout = AttentionLayout::bhsd;
  bool causal = false; // query i sees key j where j <= i + Sk - Sq
  // How far before and behind key i + Sk - Sq query i sees; any distance where there is none.
  std::optional<std::int64_t> window_left = {}, window_right = {};
  double softcap = 0; // c: scaled scores s become c tanh(s / c), before bias and masks; 0: none
  double dropout = 0; // probability to drop a weight
  std::uint64_t seed = 0;
  // [1] in device memory, added to the seed when a call runs: replays of a graph may draw anew.
  std::optional<Tensor<const std::int64_t, 1>> seed_offset = {};
  std::optional<double> scale = {}; // of the scores; 1/sqrt(D) if none
  bool tf32 = false;                // f32: products through tf32 instead of in full
  // Gradients: dq may be summed in any order where that is faster, so that two runs may differ in
  // its last bits. Packed sequences keep their order.
  bool unordered = false;
  // Inputs that need not be there.
  std::optional<AnyTensor> bias = {};  // [1 or B, 1 or Hq, Sq, Sk], elements as those of q
  std::optional<AnyTensor> mask = {};  // the same, of bools: true where a query sees a key
  std::optional<AnyTensor> sinks = {}; // [1 or Hq, R] of floats
  // Where packed sequences begin, and the end of the last: [B + 1] of std::int32_t, from 0 to Tq
  // and Tk. They go with tensors of three axes, where bias and mask are [1 or Hq, Tq, Mk].
  std::optional<AnyTensor> cu_seqlens_q = {}, cu_seqlens_k = {};
};

// N is 4, or 3 for packed sequences.
template <class T, int N> struct AttentionOutputs {
  Tensor<T, N> o;
  // [B, Hq, Sq] or [Hq, Tq]: natural logarithms of the rows' sums of exponentials.
  Tensor<float, N - 1> lse;
};
template <class T, int N> struct AttentionGradients {
  Tensor<T, N> dq, dk, dv;
  std::optional<Tensor<T, N>> dbias = {}; // where there is a bias, and of its shape
  std::optional<Tensor<float, 2>> dsinks = {};
};

namespace detail {
void addOptions(TypedCall &call, const AttentionOptions &options);
// What may be given to be written: a parameter that takes no part in finding T.
template <template <class, int> class Results, class T, int N>
using AttentionTo = std::type_identity_t<std::optional<Results<std::remove_const_t<T>, N>>>;
} // namespace detail

// o = softmax(scale q k^T) v of q [B, Hq, Sq, D], k [B, Hkv, Sk, D] and v [B, Hkv, Sk, Dv], or of
// packed sequences q [Tq, Hq, D], k [Tk, Hkv, D] and v [Tk, Hkv, Dv], with T half, bfloat16 or
// float, D and Dv from 16 to 256, and Hq a multiple of Hkv. Rows that see no key give 0. Launches
// and does not wait. Writes what is given as `to`, else what it allocates; gives it either way.
// Throws LaunchError for what does not fit.
template <class T, int N>
  requires(N == 3 || N == 4)
AttentionOutputs<std::remove_const_t<T>, N>
attention(const Stream &stream, const Tensor<T, N> &q, const detail::KernelInput<T, N> &k,
          const detail::KernelInput<T, N> &v, const AttentionOptions &options = {},
          const detail::AttentionTo<AttentionOutputs, T, N> &to = {}) {
  return detail::callFor(stream, {"attention", {{"q", q}, {"k", k}, {"v", v}}}, options, to);
}

// The gradients of what has dO for the gradient of o; o and lse are what `attention` gave for the
// same inputs and options. `to` as above: a gradient that it leaves out is allocated.
template <class T, int N>
  requires(N == 3 || N == 4)
AttentionGradients<std::remove_const_t<T>, N>
attention_backward(const Stream &stream, const Tensor<T, N> &q, const detail::KernelInput<T, N> &k,
                   const detail::KernelInput<T, N> &v, const detail::KernelInput<T, N> &o,
                   const std::type_identity_t<Tensor<const float, N - 1>> &lse,
                   const detail::KernelInput<T, N> &dO, const AttentionOptions &options = {},
                   const detail::AttentionTo<AttentionGradients, T, N> &to = {}) {
  return detail::callFor(
      stream,
      {"attention_backward", {{"q", q}, {"k", k}, {"v", v}, {"o", o}, {"lse", lse}, {"do", dO}}},
      options, to);
}

} // namespace sectile
