// What the kernels of this family must compute, done plainly on the host.
#pragma once
#include "kernels/References.h"

namespace sectile {

// o [P, B, Hq, Sq, D] and lse [P, B, Hq, Sq] of P parts of the keys -> o and lse of all of them.
// A part whose lse is -inf has seen nothing and counts nothing, whatever its o holds.
AttentionResult mergeReference(const HostArray &o, const HostArray &lse, Arithmetic arithmetic);

} // namespace sectile
