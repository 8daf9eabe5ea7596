// Mixtures of experts as functions on tensors with types. Each is the call by name
// (<sectile/library.h>) of the kernel that it is named after: it launches, does not wait, and
// throws LaunchError for arguments that the kernel does not take.
#pragma once
#include <sectile/kernels.h>

namespace sectile {

enum class MoeScoring : std::uint8_t { softmax, sigmoid, chosen };
struct MoeRouteOptions {
  std::int64_t k = 2; // experts of a token
  MoeScoring scoring = MoeScoring::softmax;
  std::optional<AnyTensor> bias = {}; // [E] of floats, for the choice alone
  std::int64_t n_group = 1, topk_group = 1;
  bool renormalize = false;
  double scale = 1;
};
struct MoeRouted {
  Tensor<float, 2> weights;        // [T, k]
  Tensor<std::int32_t, 2> experts; // [T, k]
};
struct MoePermuteOptions {
  std::int64_t count = 8, first = 0; // the experts that are there
};
struct MoePlaces {
  Tensor<std::int32_t, 1> counts, offsets; // [count], [count + 1]
  Tensor<std::int32_t, 1> order, tokens;   // [T k]
  Tensor<std::int32_t, 2> inverse;         // [T, k]
};
enum class MoeGate : std::uint8_t { none, interleaved, concatenated };
struct MoeUpOptions {
  MoeGate gate = MoeGate::concatenated;
  MatmulActivation activation = MatmulActivation::silu;
  double alpha = 1, limit = 0, up_offset = 0;
  std::optional<AnyTensor> bias = {}; // [E, N], elements like the result's
  // w, and its scales, are stored as [E, N, K]; by default for fp8 and mxfp4 alone.
  std::optional<bool> trans_w = {};
  bool exact = false; // f32 not through tf32
  // Of operands with scales: of x float [T, K / 128]; of w float [E, K / 128, N / 128], transposed
  // like w, or for mxfp4 e8m0 as std::uint8_t [E, N, K / 32]. Numbers of blocks are rounded up.
  std::optional<AnyTensor> x_scales = {}, w_scales = {};
};
struct MoeDownOptions {
  std::optional<AnyTensor> bias = {};                    // [E, N], elements like the result's
  std::optional<AnyTensor> addend = {};                  // [T, N], likewise
  std::optional<bool> trans_w = {};                      // as in MoeUpOptions
  bool exact = false;                                    // f32 not through tf32
  std::optional<AnyTensor> h_scales = {}, w_scales = {}; // as in MoeUpOptions: h [M, K / 128]
};

struct MoeCombineOptions {
  std::optional<AnyTensor> weights = {}; // float [T, k]; 1 if not given
  std::optional<AnyTensor> addend = {};  // [T, N] like parts; moe_combine's alone
};
template <class T> struct MoeCombineGradients {
  Tensor<T, 2> dparts;                           // [M, N]
  std::optional<Tensor<float, 2>> dweights = {}; // [T, k], where weights are given
};

namespace detail {
void addOptions(TypedCall &call, const MoeRouteOptions &options);
void addOptions(TypedCall &call, const MoeCombineOptions &options);

// Of fp8 codes products are bfloat16.
template <class T>
using ExpertElement = std::conditional_t<sizeof(T) == 1, bfloat16, std::remove_const_t<T>>;
// Matrices of experts like T, or in pairs of e2m1.
template <class W, class T>
concept ExpertMatrices = std::same_as<std::remove_const_t<W>, std::remove_const_t<T>> ||
                         std::same_as<std::remove_const_t<W>, std::uint8_t>;
} // namespace detail

// The k best experts of each token, from logits [T, E] of half, bfloat16 or float.
template <class T>
MoeRouted moe_route(const Stream &stream, const Tensor<T, 2> &logits,
                    const MoeRouteOptions &options, const std::optional<MoeRouted> &to = {}) {
  return detail::callFor(stream, {"moe_route", {{"logits", logits}}}, options, to);
}

// The choices experts [T, k] in the order of the experts.
inline MoePlaces moe_permute(const Stream &stream, const Tensor<const std::int32_t, 2> &experts,
                             const MoePermuteOptions &options,
                             const std::optional<MoePlaces> &to = {}) {
  return detail::callFor(stream, {"moe_permute", {{"experts", experts}}}, options, to);
}

// Rows rows[i] of x [T, K], expert by expert, times w [E, K, N] of their experts, through a gate:
// [M, N / 2], or [M, N] without one. Elements are half, bfloat16, float or float8_e4m3, which give
// bfloat16; w [E, N, K / 2] of std::uint8_t is mxfp4, for x of bfloat16 or float8_e4m3.
template <class T, class W>
  requires detail::ExpertMatrices<W, T>
Tensor<detail::ExpertElement<T>, 2>
moe_up(const Stream &stream, const Tensor<T, 2> &x, const Tensor<W, 3> &w,
       const Tensor<const std::int32_t, 1> &counts, const Tensor<const std::int32_t, 1> &rows,
       const MoeUpOptions &options = {},
       const detail::KernelTo<Tensor<detail::ExpertElement<T>, 2>> &to = {}) {
  return detail::callFor("h", stream,
                         {"moe_up", {{"x", x}, {"w", w}, {"counts", counts}, {"rows", rows}}},
                         options, to);
}

// Rows h [M, K] times w [E, K, N] of their experts, and of each token the weighted sum of those at
// inverse [T, k]: [T, N]. Elements are as in moe_up.
template <class T, class W>
  requires detail::ExpertMatrices<W, T>
Tensor<detail::ExpertElement<T>, 2>
moe_down(const Stream &stream, const Tensor<T, 2> &h, const Tensor<W, 3> &w,
         const Tensor<const std::int32_t, 1> &counts, const Tensor<const std::int32_t, 2> &inverse,
         const Tensor<const float, 2> &weights, const MoeDownOptions &options = {},
         const detail::KernelTo<Tensor<detail::ExpertElement<T>, 2>> &to = {}) {
  return detail::callFor(
      "y", stream,
      {"moe_down",
       {{"h", h}, {"w", w}, {"counts", counts}, {"inverse", inverse}, {"weights", weights}}},
      options, to);
}

// Of each token the weighted sum of the rows of parts [M, N] at inverse [T, k]: [T, N].
template <class T>
detail::KernelOutput<T, 2>
moe_combine(const Stream &stream, const Tensor<T, 2> &parts,
            const Tensor<const std::int32_t, 2> &inverse, const MoeCombineOptions &options = {},
            const detail::KernelTo<detail::KernelOutput<T, 2>> &to = {}) {
  return detail::callFor("y", stream, {"moe_combine", {{"parts", parts}, {"inverse", inverse}}},
                         options, to);
}

// The gradients of moe_combine from dy [T, N]. A row must be the place of one choice at most.
template <class T>
MoeCombineGradients<std::remove_const_t<T>>
moe_combine_backward(const Stream &stream, const Tensor<T, 2> &parts,
                     const Tensor<const std::int32_t, 2> &inverse,
                     const detail::KernelInput<T, 2> &dy, const MoeCombineOptions &options = {},
                     const detail::KernelTo<MoeCombineGradients<std::remove_const_t<T>>> &to = {}) {
  return detail::callFor(
      stream, {"moe_combine_backward", {{"parts", parts}, {"inverse", inverse}, {"dy", dy}}},
      options, to);
}

// The gradient of moe_route's logits from that of its weights, dweights [T, k], with the options
// of moe_route. The choice of experts is constant, and so is the bias.
template <class T>
detail::KernelOutput<T, 2>
moe_route_backward(const Stream &stream, const Tensor<T, 2> &logits,
                   const Tensor<const std::int32_t, 2> &experts,
                   const Tensor<const float, 2> &dweights, const MoeRouteOptions &options,
                   const detail::KernelTo<detail::KernelOutput<T, 2>> &to = {}) {
  return detail::callFor(
      "dlogits", stream,
      {"moe_route_backward", {{"logits", logits}, {"experts", experts}, {"dweights", dweights}}},
      options, to);
}

} // namespace sectile
