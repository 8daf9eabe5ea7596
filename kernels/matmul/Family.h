// The specifications of this family, each defined beside its kernel.
#pragma once
#include "kernels/registry/Families.h"

namespace sectile {

KernelSpec matmulSpec();
KernelSpec batchedMatmulSpec();
KernelSpec groupedMatmulSpec();
KernelSpec groupedMatmulDrhsSpec();
KernelSpec quantizedMatmulSpec();
KernelSpec scaledMatmulSpec();
KernelSpec mxMatmulSpec();

} // namespace sectile
