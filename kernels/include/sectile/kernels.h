// The library's main kernels as functions on tensors with types. Each is the call by name
// (<sectile/library.h>) of the kernel that it is named after: it launches, does not wait, and
// throws LaunchError for arguments that the kernel does not take. `to` gives the memory of outputs;
// what it leaves out is allocated, dense. A given output of another shape is refused, and one that
// shares memory with other arguments, unless the kernel may overwrite that input. Optional inputs
// are fields of the options.
#pragma once
#include <sectile/typed_call.h>

namespace sectile {

// Matrix products --------------------------------------------------------------------------------

enum class MatmulActivation {
  none,
  relu,
  relu_squared,
  gelu, // by erf
  gelu_tanh,
  silu,
  sigmoid,
  tanh,
  softplus
};

// B is the number of matrices of a batch; without a batch these shapes lack their first axis.
// Elements of bias and residual are those of the result.
struct MatmulOptions {
  bool trans_a = false;             // a is [K, M]
  std::optional<bool> trans_b = {}; // b is [N, K]; if left out, in fp8 and int8 products
  MatmulActivation activation = MatmulActivation::none;
  double alpha = 1, beta = 1;
  bool exact = false;                         // f32 not through tf32, fp8 summed in f32
  bool stream_k = false;                      // few programs share the last tiles evenly
  std::optional<AnyTensor> bias = {};         // [1 or B, N]
  std::optional<AnyTensor> residual = {};     // [B, M, N]
  std::optional<AnyTensor> row_scale = {};    // [1 or B, M] of floats
  std::optional<AnyTensor> column_scale = {}; // [1 or B, N] of floats
};

namespace detail {
struct AsInputs;
// Elements of a product: `Out`, else those of a; int32 of int8.
template <class Out, class T>
using MatmulElement =
    std::conditional_t<!std::same_as<Out, AsInputs>, Out,
                       std::conditional_t<std::same_as<std::remove_const_t<T>, std::int8_t>,
                                          std::int32_t, std::remove_const_t<T>>>;
template <class Out> constexpr const char *matmulOut() {
  if constexpr (std::same_as<Out, AsInputs>)
    return "same";
  else if constexpr (std::same_as<Out, float>)
    return "f32";
  else if constexpr (std::same_as<Out, half>)
    return "f16";
  else {
    static_assert(std::same_as<Out, bfloat16>,
                  "matmul<Out> gives float, half or bfloat16; without Out, the elements of a");
    return "bf16";
  }
}
} // namespace detail

// c = activation(alpha a b + beta residual + bias) of a [M, K] and b [K, N], or of batches
// a [B, M, K] and b [1 or B, K, N]; b of fp8 and int8 is [N, K] unless trans_b is false. The
// product's rows and columns are multiplied by their scales first. T: half, bfloat16, float,
// float8_e4m3, float8_e5m2, or int8, whose result is int32. Write matmul<float>(…) for other
// elements of c; int8 with anything after the product needs that.
template <class Out = detail::AsInputs, class T, int N>
  requires(N == 2 || N == 3)
Tensor<detail::MatmulElement<Out, T>, N>
matmul(const Stream &stream, const Tensor<T, N> &a, const detail::KernelInput<T, N> &b,
       const MatmulOptions &options = {},
       const detail::KernelTo<Tensor<detail::MatmulElement<Out, T>, N>> &to = {}) {
  return detail::callFor("c", stream,
                         {N == 3 ? "batched_matmul" : "matmul",
                          {{"a", a}, {"b", b}},
                          {{"out", detail::matmulOut<Out>()}}},
                         options, to);
}

// Norms ------------------------------------------------------------------------------------------
// Over rows x [..., N] of half, bfloat16 or float. mean and rstd, one number for each row, are for
// the backward pass.

struct LayerNormOptions {
  std::optional<AnyTensor> w = {}, b = {}; // [N], elements as those of x
  double eps = 1e-5;
};
template <class T, int N> struct LayerNormOutputs {
  Tensor<T, N> y;
  Tensor<float, N - 1> mean, rstd;
};
template <class T, int N> struct LayerNormGradients {
  Tensor<T, N> dx;
  std::optional<Tensor<T, 1>> dw = {}, db = {}; // where there is w, where there is b
};

struct RmsNormOptions {
  std::optional<AnyTensor> w = {};        // [N], elements as those of x
  std::optional<AnyTensor> residual = {}; // as x, which it is added to first
  double eps = 1e-6;
  double weight_offset = 0; // added to w; 1 for Gemma
};
template <class T, int N> struct RmsNormOutputs {
  Tensor<T, N> y;
  Tensor<float, N - 1> rstd;
  std::optional<Tensor<T, N>> h = {}; // x + residual, where there is a residual
};
struct RmsNormQuantOptions {
  std::optional<AnyTensor> w = {};        // [N], elements as those of x
  std::optional<AnyTensor> residual = {}; // as x, which it is added to first
  double eps = 1e-6;
  double weight_offset = 0; // added to w; 1 for Gemma
  // Neighbours in a row that share a scale: 32, 64 or 128. All of the row if none.
  std::optional<std::int64_t> group = {};
  bool power_of_two = false;           // scales are rounded up to powers of two
  std::optional<AnyTensor> scale = {}; // [1] f32: all scales, in place of those that fit
  double scale_ub = 0;                 // the largest magnitude that scales are made for; 0: any
};
template <class Q, class T, int N> struct RmsNormQuantOutputs {
  Tensor<Q, N> y;
  Tensor<float, N> scales; // [..., 1], or [..., N / group], rounded up: z = y scale
  Tensor<float, N - 1> rstd;
  std::optional<Tensor<T, N>> h = {}; // x + residual, where there is a residual
};
struct RmsNormBackwardOptions {
  std::optional<AnyTensor> w = {};  // as forward
  std::optional<AnyTensor> h = {};  // of a call with a residual: read in place of x
  std::optional<AnyTensor> dh = {}; // the gradient of h from its other uses
  double weight_offset = 0;         // as forward
};
template <class T, int N> struct RmsNormGradients {
  Tensor<T, N> dx; // of the residual too
  std::optional<Tensor<T, 1>> dw = {};
};

namespace detail {
void addOptions(TypedCall &call, const LayerNormOptions &options);
void addOptions(TypedCall &call, const RmsNormQuantOptions &options);
} // namespace detail

// y = (x - mean) rstd w + b
template <class T, int N>
  requires(N >= 2)
LayerNormOutputs<std::remove_const_t<T>, N>
layer_norm(const Stream &stream, const Tensor<T, N> &x, const LayerNormOptions &options = {},
           const detail::KernelTo<LayerNormOutputs<std::remove_const_t<T>, N>> &to = {}) {
  return detail::callFor(stream, {"layer_norm", {{"x", x}}}, options, to);
}

// Of layer_norm with the same x and options, given the gradient of y. eps is not used.
template <class T, int N>
  requires(N >= 2)
LayerNormGradients<std::remove_const_t<T>, N> layer_norm_backward(
    const Stream &stream, const Tensor<T, N> &x, const detail::KernelInput<float, N - 1> &mean,
    const detail::KernelInput<float, N - 1> &rstd, const detail::KernelInput<T, N> &dy,
    const LayerNormOptions &options = {},
    const detail::KernelTo<LayerNormGradients<std::remove_const_t<T>, N>> &to = {}) {
  return detail::callFor(
      stream, {"layer_norm_backward", {{"x", x}, {"mean", mean}, {"rstd", rstd}, {"dy", dy}}},
      options, to);
}

// y = h rstd (w + weight_offset) with h = x, or x + residual
template <class T, int N>
  requires(N >= 2)
RmsNormOutputs<std::remove_const_t<T>, N>
rms_norm(const Stream &stream, const Tensor<T, N> &x, const RmsNormOptions &options = {},
         const detail::KernelTo<RmsNormOutputs<std::remove_const_t<T>, N>> &to = {}) {
  return detail::callFor(stream, {"rms_norm", {{"x", x}}}, options, to);
}

// z = h rstd (w + weight_offset) as codes of Q, float8_e4m3, float8_e5m2 or std::int8_t, with their
// scales. h and rstd as of rms_norm.
template <class Q = float8_e4m3, class T, int N>
  requires(N >= 2)
RmsNormQuantOutputs<Q, std::remove_const_t<T>, N>
rms_norm_quant(const Stream &stream, const Tensor<T, N> &x, const RmsNormQuantOptions &options = {},
               const detail::KernelTo<RmsNormQuantOutputs<Q, std::remove_const_t<T>, N>> &to = {}) {
  return detail::callFor(
      stream, {"rms_norm_quant", {{"x", x}}, {{"out", std::string(name_of(dtype_of<Q>))}}}, options,
      to);
}

// Of rms_norm with the same x and w, given the gradient of y.
template <class T, int N>
  requires(N >= 2)
RmsNormGradients<std::remove_const_t<T>, N>
rms_norm_backward(const Stream &stream, const Tensor<T, N> &x,
                  const detail::KernelInput<float, N - 1> &rstd,
                  const detail::KernelInput<T, N> &dy, const RmsNormBackwardOptions &options = {},
                  const detail::KernelTo<RmsNormGradients<std::remove_const_t<T>, N>> &to = {}) {
  return detail::callFor(stream, {"rms_norm_backward", {{"x", x}, {"rstd", rstd}, {"dy", dy}}},
                         options, to);
}

// Softmax and losses -----------------------------------------------------------------------------
// Over rows [..., N] of half, bfloat16 or float.

// y = softmax(x) along the last axis
template <class T, int N>
detail::KernelOutput<T, N> softmax(const Stream &stream, const Tensor<T, N> &x,
                                   const detail::KernelTo<detail::KernelOutput<T, N>> &to = {}) {
  return detail::callFor("y", stream, {"softmax", {{"x", x}}}, to);
}

// dx, given softmax's y and the gradient of y
template <class T, int N>
detail::KernelOutput<T, N>
softmax_backward(const Stream &stream, const Tensor<T, N> &y, const detail::KernelInput<T, N> &dy,
                 const detail::KernelTo<detail::KernelOutput<T, N>> &to = {}) {
  return detail::callFor("dx", stream, {"softmax_backward", {{"y", y}, {"dy", dy}}}, to);
}

// y = log(softmax(x)) along the last axis
template <class T, int N>
detail::KernelOutput<T, N>
log_softmax(const Stream &stream, const Tensor<T, N> &x,
            const detail::KernelTo<detail::KernelOutput<T, N>> &to = {}) {
  return detail::callFor("y", stream, {"log_softmax", {{"x", x}}}, to);
}

// dx, given log_softmax's y and the gradient of y
template <class T, int N>
detail::KernelOutput<T, N>
log_softmax_backward(const Stream &stream, const Tensor<T, N> &y,
                     const detail::KernelInput<T, N> &dy,
                     const detail::KernelTo<detail::KernelOutput<T, N>> &to = {}) {
  return detail::callFor("dx", stream, {"log_softmax_backward", {{"y", y}, {"dy", dy}}}, to);
}

enum class LossReduction { mean, sum, none }; // the mean is over targets that are not ignored

struct CrossEntropyOptions {
  LossReduction reduction = LossReduction::mean;
  std::int64_t ignore_index = -100;            // a target without loss and gradient
  double label_smoothing = 0;                  // from 0 to 1
  double lse_square = 0;                       // times lse^2 is added to a row's loss
  std::optional<AnyTensor> class_weights = {}; // [V] of floats, of the targets' losses
  bool argmax = false;
};
template <int N> struct CrossEntropyOutputs {
  Tensor<float, N> loss; // of the targets' shape; of one element with mean and sum: all extents 1
  Tensor<float, N> lse;  // of the targets' shape: natural logarithms of sums of exponentials
  std::optional<Tensor<std::int32_t, N>> argmax = {}; // of the targets' shape, if it is wanted
};

namespace detail {
void addOptions(TypedCall &call, const CrossEntropyOptions &options);
// A loss that is reduced has extents of 1, and by name no axes.
NamedTensors runLoss(const Stream &stream, TypedCall call, LossReduction reduction,
                     NamedTensors given);
template <class Options>
NamedTensors runLoss(const Stream &stream, TypedCall call, const Options &options,
                     NamedTensors given) {
  addOptions(call, options);
  return runLoss(stream, std::move(call), options.reduction, std::move(given));
}
} // namespace detail

// The loss of logits [..., V], given targets [...]: classes, of int64 or int32.
template <class T, class Target, int N>
  requires(N >= 2)
CrossEntropyOutputs<N - 1>
cross_entropy(const Stream &stream, const Tensor<T, N> &logits,
              const Tensor<Target, N - 1> &targets, const CrossEntropyOptions &options = {},
              const detail::KernelTo<CrossEntropyOutputs<N - 1>> &to = {}) {
  return detail::outputsOf<CrossEntropyOutputs<N - 1>>(
      detail::runLoss(stream, {"cross_entropy", {{"logits", logits}, {"targets", targets}}},
                      options, detail::namedOutputs(to)));
}

// The gradient of the logits, given that of the loss, of the loss's shape, and cross_entropy's lse.
template <class T, class Target, int N>
  requires(N >= 2)
detail::KernelOutput<T, N> cross_entropy_backward(
    const Stream &stream, const Tensor<T, N> &logits, const Tensor<Target, N - 1> &targets,
    const detail::KernelInput<float, N - 1> &lse, const detail::KernelInput<float, N - 1> &dloss,
    const CrossEntropyOptions &options = {},
    const detail::KernelTo<detail::KernelOutput<T, N>> &to = {}) {
  NamedTensors given;
  detail::addTensor(given, "dlogits", to);
  return detail::takeTensor<detail::KernelOutput<T, N>>(
      detail::runLoss(stream,
                      {"cross_entropy_backward",
                       {{"logits", logits}, {"targets", targets}, {"lse", lse}, {"dloss", dloss}}},
                      options, given),
      "dlogits");
}

struct LinearCrossEntropyOptions {
  LossReduction reduction = LossReduction::mean; // over no targets 0
  std::int64_t ignore_index = -100;              // a target without loss and gradient
  double label_smoothing = 0;                    // from 0 to 1
  double lse_square = 0;                         // times lse^2 is added to a token's loss
  double softcap = 0;                            // c: logits become c tanh(logits / c)
  double scale = 1;                              // of the logits
  std::optional<AnyTensor> dloss = {};           // [N] of floats, with LossReduction::none
  std::optional<AnyTensor> bias = {};            // [V], elements as those of x
  std::optional<AnyTensor> class_weights = {};   // [V] of floats, as of cross_entropy
  bool argmax = false;
};
template <class T> struct LinearCrossEntropyOutputs {
  Tensor<float, 1> loss;                      // [N]; of one element with mean and sum
  Tensor<float, 1> lse, logprob;              // [N]; the logarithm of each target's probability
  Tensor<T, 2> dx;                            // [N, H]
  Tensor<float, 2> dw;                        // [V, H]
  std::optional<Tensor<float, 1>> dbias = {}; // [V], where there is a bias
  std::optional<Tensor<std::int32_t, 1>> argmax = {}; // [N], if it is wanted
};

// The cross entropy of x w^T + bias and its gradients, without the logits in memory: x [N, H], w
// [V, H] of half, bfloat16 or float, targets [N] of int64 or int32.
template <class T, class Target>
LinearCrossEntropyOutputs<std::remove_const_t<T>> linear_cross_entropy(
    const Stream &stream, const Tensor<T, 2> &x, const detail::KernelInput<T, 2> &w,
    const Tensor<Target, 1> &targets, const LinearCrossEntropyOptions &options = {},
    const detail::KernelTo<LinearCrossEntropyOutputs<std::remove_const_t<T>>> &to = {}) {
  return detail::outputsOf<LinearCrossEntropyOutputs<std::remove_const_t<T>>>(
      detail::runLoss(stream, {"linear_cross_entropy", {{"x", x}, {"w", w}, {"targets", targets}}},
                      options, detail::namedOutputs(to)));
}

// Rotary positions -------------------------------------------------------------------------------

// How the frequencies f of a rotation are scaled for contexts longer than those of the training,
// whose length is original_length. docs/kernels/positions.md has the formulas.
enum class RopeScalingKind { none, linear, dynamic, llama3, yarn };
struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::none;
  double factor = 8;                           // at least 1
  std::int64_t original_length = 8192;         // dynamic, llama3, yarn
  double low_freq = 1, high_freq = 4;          // llama3
  double beta_fast = 32, beta_slow = 1;        // yarn
  bool yarn_round = true;                      // yarn: its ramp begins and ends with whole pairs
  std::optional<double> attention_factor = {}; // yarn: of rotated numbers; 0.1 ln(factor) + 1
  std::optional<std::int64_t> length = {};     // dynamic: the present length; the end of the rows
};

struct RopeOptions {
  bool interleaved = false;                // pairs of dims are (2i, 2i + 1), not (i, i + r/2)
  double theta = 10000;                    // base of the frequencies
  std::optional<std::int64_t> rotary = {}; // r: so many dims rotate, the first; all if none
  std::int64_t offset = 0;                 // position of the first row
  bool bshd = false;                       // axes are [B, S, H, D]
  std::optional<AnyTensor> positions = {}; // [B, S] of int32; offset, offset + 1, … if none
  RopeScaling scaling = {};
};

namespace detail {
void addOptions(TypedCall &call, const RopeScaling &scaling);
} // namespace detail

// y: x [B, H, S, D] of half, bfloat16 or float with its pairs of dims rotated
template <class T>
detail::KernelOutput<T, 4> rope(const Stream &stream, const Tensor<T, 4> &x,
                                const RopeOptions &options = {},
                                const detail::KernelTo<detail::KernelOutput<T, 4>> &to = {}) {
  return detail::callFor("y", stream, {"rope", {{"x", x}}}, options, to);
}

// dx, given the gradient of rope's y and the same options
template <class T>
detail::KernelOutput<T, 4>
rope_backward(const Stream &stream, const Tensor<T, 4> &dy, const RopeOptions &options = {},
              const detail::KernelTo<detail::KernelOutput<T, 4>> &to = {}) {
  return detail::callFor("dx", stream, {"rope_backward", {{"dy", dy}}}, options, to);
}

// Convolution ------------------------------------------------------------------------------------

struct Conv2dOptions {
  bool nhwc = false; // x is [N, H, W, C], w [K, R, S, C / groups], y [N, P, Q, K]
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_h = 0, pad_w = 0; // zeros on both sides
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t groups = 1;
  bool exact = false;              // f32 not through tf32
  std::optional<AnyTensor> b = {}; // [K], elements as those of x
};
template <class T> struct Conv2dGradients {
  Tensor<T, 4> dx, dw;
  std::optional<Tensor<T, 1>> db = {}; // where there is b
};

// y [N, K, P, Q] = x [N, C, H, W] convolved with the filters w [K, C / groups, R, S], plus b; of
// half, bfloat16 or float
template <class T>
detail::KernelOutput<T, 4> conv2d(const Stream &stream, const Tensor<T, 4> &x,
                                  const detail::KernelInput<T, 4> &w,
                                  const Conv2dOptions &options = {},
                                  const detail::KernelTo<detail::KernelOutput<T, 4>> &to = {}) {
  return detail::callFor("y", stream, {"conv2d", {{"x", x}, {"w", w}}}, options, to);
}

// Of conv2d with the same inputs and options, given the gradient of y.
template <class T>
Conv2dGradients<std::remove_const_t<T>>
conv2d_backward(const Stream &stream, const Tensor<T, 4> &x, const detail::KernelInput<T, 4> &w,
                const detail::KernelInput<T, 4> &dy, const Conv2dOptions &options = {},
                const detail::KernelTo<Conv2dGradients<std::remove_const_t<T>>> &to = {}) {
  return detail::callFor(stream, {"conv2d_backward", {{"x", x}, {"w", w}, {"dy", dy}}}, options,
                         to);
}

} // namespace sectile
