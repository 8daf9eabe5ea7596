// The kernels' specifications, family by family; each is defined in its family's folder.
#pragma once
#include "kernels/registry/Registry.h"

namespace sectile {

std::vector<KernelSpec> elementwiseKernels();
std::vector<KernelSpec> normKernels();
std::vector<KernelSpec> matmulKernels();
std::vector<KernelSpec> quantizeKernels();
std::vector<KernelSpec> convKernels();
std::vector<KernelSpec> attentionKernels();
std::vector<KernelSpec> servingKernels();
std::vector<KernelSpec> samplingKernels();
std::vector<KernelSpec> expertKernels();
std::vector<KernelSpec> ringKernels();
std::vector<KernelSpec> positionKernels();
std::vector<KernelSpec> poolingKernels();
std::vector<KernelSpec> recurrentKernels();
std::vector<KernelSpec> collectionKernels();

} // namespace sectile
