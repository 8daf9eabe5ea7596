// The backward pass that layer norm and RMS norm share.
#pragma once
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"

namespace sectile {

// That of y = (x - mean) rstd w + b where the forward kernel is `centred`, else of y = h rstd w
// with h, where it is given, instead of x, and dh added to dx. Its summary is the caller's.
KernelSpec normBackwardSpec(const std::string &forward, bool centred);

// The configuration of a kernel over rows along N, of whose programs each does many rows with its
// part of up to two sums over them, if the call has any. Rows beyond `longest` elements, or
// `longestWithoutSums`, go in blocks; SumRows.h adds the parts. `part` is the launch that is tuned.
constexpr std::int64_t longestWithSums = 12288, longestWithoutSums = longestWhole;
void configureNormBackward(KernelSpec &spec, std::function<bool(const Invocation &)> hasSums,
                           const char *part, std::int64_t longest = longestWithSums,
                           std::int64_t longestWithout = longestWithoutSums);

} // namespace sectile
