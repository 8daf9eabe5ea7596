// The backward pass that layer norm and RMS norm share: arguments that they have in common, and
// their launches.
#pragma once
#include "kernels/Use.h"

namespace sectile {

// Adds the configuration, its defaults, its search spaces and the launches to a specification with
// the inputs x, w, rstd and dy and the outputs dx and dw. `centred`: there are mean and db too, and
// the mean was taken away from x. Optional inputs h (instead of x) and dh (added to dx) are taken
// where the specification has them.
void addNormBackward(KernelSpec &spec, bool centred);

// Numbers that an rstd may be.
void sampleScales(const Invocation &call, HostArray &array, std::mt19937_64 &random);

} // namespace sectile
