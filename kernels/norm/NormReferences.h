// What the kernels of this family must compute, done plainly on the host.
#pragma once
#include "kernels/references/References.h"
#include <sectile/kernel_spec.h>
#include <string>

namespace sectile {

struct RmsNormResult {
  HostArray y, h, rstd; // h: where there is a residual
};
// y = h * rstd * w along the last axis with h = x + residual, rstd = 1 / sqrt(mean(h^2) + eps); w
// may be left out.
RmsNormResult rmsNormReference(const HostArray &x, const HostArray &w, const HostArray *residual,
                               double eps, Arithmetic arithmetic);

// weight + offset, unrounded; a weight that was left out stays so.
HostArray movedWeight(const HostArray &weight, double offset);

struct NormBackwardResult {
  HostArray dx, dw, db; // db: of layer norm
};
// Of y = (x - mean) * rstd * w + b along the last axis; of y = x * rstd * w where there is no mean.
// dh, where there is one, is added to dx. w may be left out.
NormBackwardResult normBackwardReference(const HostArray &x, const HostArray &w,
                                         const HostArray *mean, const HostArray &rstd,
                                         const HostArray &dy, const HostArray *dh,
                                         Arithmetic arithmetic);

// y = x - log(sum(exp(x))) along the last axis. A row of -inf gives NaN, as in PyTorch.
HostArray logSoftmaxReference(const HostArray &x, Arithmetic arithmetic);

struct CrossEntropyValues {
  std::int64_t ignored = -100;
  double smoothing = 0, square = 0;
  std::string reduction = "mean";   // or sum, none
  std::vector<double> weights = {}; // of classes; none: all are 1
};
struct CrossEntropyResult {
  HostArray loss, lse, argmax;
};
// Of each row of logits [..., V] with its class c, smoothing s, square z and weights w:
// loss = (1 - s) * w[c] * (lse - x[c]) + s * mean(w * (lse - x)) + z * lse^2, 0 where c is ignored;
// then all, or the sum, or the mean: the sum of the first two parts divided by that of w[c], and
// the mean of the third, over rows that are not ignored. lse = log(sum(exp(x))); argmax: the place
// of the first of the largest x, or of the first NaN.
CrossEntropyResult crossEntropyReference(const HostArray &logits, const HostArray &targets,
                                         const CrossEntropyValues &options, Arithmetic arithmetic);
// Gradient of the logits.
HostArray crossEntropyBackwardReference(const HostArray &logits, const HostArray &targets,
                                        const HostArray &lse, const HostArray &dloss,
                                        const CrossEntropyValues &options, Arithmetic arithmetic);

ReferenceFunction softmaxBackwardReference;
ReferenceFunction logSoftmaxBackwardReference;
ReferenceFunction groupNormReference;
ReferenceFunction groupNormBackwardReference;

} // namespace sectile
