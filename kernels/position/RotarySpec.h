// What the specifications of kernels that turn rows have in common: how pairs are made, how many
// turn, how fast.
#pragma once
#include "kernels/Registry.h"

namespace sectile {

// Options style, theta and rotary.
std::vector<OptionSpec> rotationOptions();
void checkRotation(const Invocation &call);
// How many of the dims turn.
std::int64_t rotaryDims(const Invocation &call);

} // namespace sectile
