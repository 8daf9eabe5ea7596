// What kernels over rows share: how many rows a program holds, in how many warps.
#pragma once
#include "kernels/Registry.h"

namespace sectile {

// Fields of a configuration: block, rows, warps.
std::vector<ConfigSpec> rowConfig();
// For rows of n elements, of which a program holds at most `longest` at once.
Config rowDefaults(const Invocation &call, const std::string &target, std::int64_t n,
                   std::int64_t longest = 8192);
// Rows of n elements, whole in the registers of the threads or in large parts.
SearchSpace rowSpace(std::function<std::int64_t(const Invocation &)> n);

} // namespace sectile
