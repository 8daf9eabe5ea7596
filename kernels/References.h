// What the kernels must compute, done plainly on the host.
#pragma once
#include "kernels/HostArray.h"
#include <optional>

namespace sectile {

// The numbers a reference computes with.
enum class Arithmetic {
  exact, // float64 throughout; results are float64
  own,   // the kernel's own dtypes: sums in float, every intermediate array rounded to the inputs'
         // type, as a chain of unfused kernels would. How far this is from `exact` says what
         // accuracy can be asked of a kernel.
};

// z = x + y
HostArray vectorAddReference(const HostArray &x, const HostArray &y, Arithmetic arithmetic);

// Along the last axis. A row of -inf gives NaN, as in PyTorch.
HostArray softmaxReference(const HostArray &x, Arithmetic arithmetic);

struct LayerNormResult {
  HostArray y, mean, rstd;
};
// y = (x - mean) * rstd * w + b along the last axis; biased variance, eps added to it.
LayerNormResult layerNormReference(const HostArray &x, const HostArray &w, const HostArray &b,
                                   double eps, Arithmetic arithmetic);

struct MatmulOptions {
  bool tf32 = false; // for Arithmetic::own: operands cut to tf32, as tensor cores do
};
// c[M, N] = a[M, K] b[K, N]
HostArray matmulReference(const HostArray &a, const HostArray &b, const MatmulOptions &options,
                          Arithmetic arithmetic);

struct AttentionOptions {
  bool causal = false;
  std::optional<double> scale = {}; // 1/sqrt(D) where not given
};
struct AttentionResult {
  HostArray o, lse;
};
// q [B, Hq, Sq, D], k and v [B, Hkv, Sk, D] -> o like q, lse [B, Hq, Sq] (natural logarithm).
// Causal: query i sees key j iff j <= i + Sk - Sq. A row whose scores are all -inf, or that sees no
// key, has o = 0 and lse = -inf.
AttentionResult attentionReference(const HostArray &q, const HostArray &k, const HostArray &v,
                                   const AttentionOptions &options, Arithmetic arithmetic);

} // namespace sectile
