// The specifications of this family, each defined beside its kernel.
#pragma once
#include "kernels/Families.h"

namespace sectile {

KernelSpec sampleSpec();
KernelSpec renormalizeSpec();
KernelSpec speculativeVerifySpec();

} // namespace sectile
