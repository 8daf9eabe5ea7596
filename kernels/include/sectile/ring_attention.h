// Attention over a sequence that is spread over several devices, one process each.
#pragma once
#include <optional>
#include <sectile/communicator.h>
#include <sectile/tensor.h>

namespace sectile {

struct RingAttentionOptions {
  bool causal = false; // over the places in the whole sequence
  // In causal order all processes have as much to do: of the 2 P slices of the whole sequence,
  // process r holds slice r and behind it slice 2 P - 1 - r, which are the first half of its
  // tokens, rounded up, and the rest. Otherwise process r holds slice r of P.
  bool zigzag = false;
  std::optional<double> scale = {}; // 1/sqrt(D) where not given
};

template <class T> struct RingAttention {
  Tensor<T, 4> o;
  Tensor<float, 3> lse;
};

// Ring attention (arXiv 2310.01889): process r holds slice r of the sequence, q [B, Hq, Sr, D] and
// k, v [B, Hkv, Sr, D], of any strides and of any length in each process (two slices of it where
// options.zigzag). Slices of k and v go
// round, one hop a step, while the device works on those that are there; partial results are merged
// by their lse. Gives this process's rows of o, like q, and lse [B, Hq, Sr] (natural logarithm), as
// attention over the whole sequence does. All processes call it together. Half, bfloat16, float.
// Writes what is given as `to`, of any strides, else what it allocates; gives it either way. Throws
// LaunchError where the tensors do not fit each other, in every process if B, the heads or D differ
// between them, or if `to` does not fit in one.
template <class T>
RingAttention<T> ring_attention(const Stream &stream, const Communicator &communicator,
                                const Tensor<T, 4> &q, const Tensor<T, 4> &k, const Tensor<T, 4> &v,
                                const RingAttentionOptions &options = {},
                                const std::optional<RingAttention<T>> &to = {});

template <class T> struct RingAttentionGradients {
  Tensor<T, 4> dq, dk, dv;
};

// The gradients of this process's q, k and v, given its rows of o and lse and the gradient of o.
// Sums over the processes are kept in float and travel with the slices. `to` as above.
template <class T>
RingAttentionGradients<T>
ring_attention_backward(const Stream &stream, const Communicator &communicator,
                        const Tensor<T, 4> &q, const Tensor<T, 4> &k, const Tensor<T, 4> &v,
                        const RingAttention<T> &forward, const Tensor<T, 4> &do_,
                        const RingAttentionOptions &options = {},
                        const std::optional<RingAttentionGradients<T>> &to = {});

} // namespace sectile
