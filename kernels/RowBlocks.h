// What kernels over rows share: how many rows a program holds, in how many warps, and the option
// eps.
#pragma once
#include "kernels/Registry.h"

namespace sectile {

// The configuration of a kernel over rows along this axis, of which a program holds at most
// `longest` elements of f32 or twice as many of 16 bits at once: its fields, their defaults, and a
// search space of rows that are whole in the registers of the threads or in large parts.
void configureRows(KernelSpec &spec, const std::string &axis, std::int64_t longest = 8192);

OptionSpec epsOption(const char *initial, const char *doc);
void checkEps(const Invocation &call);

} // namespace sectile
