// The backward pass that layer norm and RMS norm share.
#pragma once
#include "kernels/Use.h"

namespace sectile {

// That of y = (x - mean) rstd w + b where the forward kernel is `centred`, else of y = h rstd w
// with h, where it is given, instead of x, and dh added to dx. Its summary is the caller's.
KernelSpec normBackwardSpec(const std::string &forward, bool centred);

} // namespace sectile
