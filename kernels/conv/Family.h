// The specifications of this family, each defined beside its kernel.
#pragma once
#include "kernels/Families.h"

namespace sectile {

KernelSpec conv2dSpec();
KernelSpec conv2dBackwardSpec();

} // namespace sectile
