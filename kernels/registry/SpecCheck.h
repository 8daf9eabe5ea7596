// Checks that a kernel's description is complete, so that its users do not have to.
#pragma once
#include "kernels/registry/Registry.h"

namespace sectile {

// Throws InputError that says which field of the description cannot be as it is. Fills in the
// functions that a description may do without where callers need one.
void completeSpec(KernelSpec &kernel);

} // namespace sectile
