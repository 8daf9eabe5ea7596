// Whether a kernel's description is whole, so that nothing that uses it need ask.
#pragma once
#include "kernels/Registry.h"

namespace sectile {

// Throws InputError that says which field of the description cannot be as it is. Fills in the
// functions that a description may do without where callers need one.
void completeSpec(KernelSpec &kernel);

} // namespace sectile
