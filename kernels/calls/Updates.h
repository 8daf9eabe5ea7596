// Outputs that begin as an input: ArgumentSpec::updates.
#pragma once
#include <sectile/use.h>

namespace sectile {

// Launches the copies of those that do not have their input's memory. Comes before a kernel's own
// launches.
void copyUpdated(Use &use);

} // namespace sectile
