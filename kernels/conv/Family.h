// The specifications of this family, each defined beside its kernel.
#pragma once
#include "kernels/registry/Families.h"

namespace sectile {

KernelSpec conv2dSpec();
KernelSpec conv2dBackwardSpec();
KernelSpec causalConv1dSpec();
KernelSpec causalConv1dBackwardSpec();
KernelSpec causalConv1dUpdateSpec();

} // namespace sectile
