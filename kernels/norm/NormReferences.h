// What the kernels of this family must compute, done plainly on the host.
#pragma once
#include "kernels/References.h"

namespace sectile {

struct NormBackwardResult {
  HostArray dx, dw, db; // db: of layer norm
};
// Of y = (x - mean) * rstd * w + b along the last axis; of y = x * rstd * w where there is no mean
// (an array without data). dh, where it has data, is added to dx.
NormBackwardResult normBackwardReference(const HostArray &x, const HostArray &w,
                                         const HostArray *mean, const HostArray &rstd,
                                         const HostArray &dy, const HostArray *dh,
                                         Arithmetic arithmetic);

} // namespace sectile
