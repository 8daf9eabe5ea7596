// Which configuration a call on a device has. What was tuned decides in a program with the compiler
// (Tune.cpp), the kernel itself in a sealed one (OwnChoices.cpp).
#pragma once
#include "kernels/registry/Registry.h"
#include <sectile/device.h>

namespace sectile {

// The best that is known, else the kernel's own choice; its own choice in any case where autotuning
// is off. Calls of one bucket ask the database once, and again where something was recorded since.
Config configFor(const Invocation &call, const Device &device);
// Counts what was recorded: with the same number, configFor answers the same.
std::uint64_t choicesRecorded();

} // namespace sectile
