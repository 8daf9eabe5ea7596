// Attention and its gradients on tensors with types: the library's kernels `attention` and
// `attention_backward`.
#pragma once
#include <optional>
#include <sectile/library.h>
#include <type_traits>

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
  std::int64_t seed = 0;
  std::optional<double> scale = {}; // of the scores; 1/sqrt(D) if none
  bool exact = false;               // f32: products in full instead of through tf32
  // Inputs that need not be there.
  std::optional<AnyTensor> bias = {};  // [1 or B, 1 or Hq, Sq, Sk], elements as those of q
  std::optional<AnyTensor> mask = {};  // the same, of bools: true where a query sees a key
  std::optional<AnyTensor> sinks = {}; // [1 or Hq, R] of floats
};

template <class T> struct AttentionOutputs {
  Tensor<T, 4> o;
  Tensor<float, 3> lse; // [B, Hq, Sq]: natural logarithms of the rows' sums of exponentials
};
template <class T> struct AttentionGradients {
  Tensor<T, 4> dq, dk, dv;
  std::optional<Tensor<T, 4>> dbias = {}; // where there is a bias, and of its shape
  std::optional<Tensor<float, 2>> dsinks = {};
};

namespace detail {
// Adds the optional inputs to those given.
NamedTensors runAttention(const Stream &stream, std::string_view kernel, NamedTensors inputs,
                          const AttentionOptions &options);
// A parameter that takes no part in finding T.
template <class T>
using AttentionInput = std::type_identity_t<Tensor<const std::remove_const_t<T>, 4>>;
} // namespace detail

// o = softmax(scale q k^T) v of q [B, Hq, Sq, D], k [B, Hkv, Sk, D] and v [B, Hkv, Sk, Dv], with T
// half, bfloat16 or float, D and Dv from 16 to 256, and Hq a multiple of Hkv. Rows that see no key
// give 0. Launches and does not wait. Throws LaunchError for what does not fit.
template <class T>
AttentionOutputs<std::remove_const_t<T>>
attention(const Stream &stream, const Tensor<T, 4> &q, const detail::AttentionInput<T> &k,
          const detail::AttentionInput<T> &v, const AttentionOptions &options = {}) {
  using Element = std::remove_const_t<T>;
  const NamedTensors out =
      detail::runAttention(stream, "attention", {{"q", q}, {"k", k}, {"v", v}}, options);
  return {out.at("o").as<Element, 4>(), out.at("lse").as<float, 3>()};
}

// The gradients of what has dO for the gradient of o; o and lse are what `attention` gave for the
// same inputs and options.
template <class T>
AttentionGradients<std::remove_const_t<T>>
attention_backward(const Stream &stream, const Tensor<T, 4> &q, const detail::AttentionInput<T> &k,
                   const detail::AttentionInput<T> &v, const detail::AttentionInput<T> &o,
                   const Tensor<const float, 3> &lse, const detail::AttentionInput<T> &dO,
                   const AttentionOptions &options = {}) {
  using Element = std::remove_const_t<T>;
  const NamedTensors out = detail::runAttention(
      stream, "attention_backward",
      {{"q", q}, {"k", k}, {"v", v}, {"o", o}, {"lse", lse}, {"do", dO}}, options);
  AttentionGradients<Element> result{out.at("dq").as<Element, 4>(), out.at("dk").as<Element, 4>(),
                                     out.at("dv").as<Element, 4>()};
  if (const auto dbias = out.find("dbias"); dbias != out.end())
    result.dbias = dbias->second.template as<Element, 4>();
  if (const auto dsinks = out.find("dsinks"); dsinks != out.end())
    result.dsinks = dsinks->second.template as<float, 2>();
  return result;
}

} // namespace sectile
