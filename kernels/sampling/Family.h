// The specifications of this family, each defined beside its kernel.
#pragma once
#include "kernels/registry/Families.h"

namespace sectile {

KernelSpec sampleSpec();
KernelSpec renormalizeSpec();
KernelSpec speculativeVerifySpec();

} // namespace sectile
