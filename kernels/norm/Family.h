// The specifications of this family, each defined beside its kernel.
#pragma once
#include "kernels/registry/Families.h"

namespace sectile {

KernelSpec softmaxSpec();
KernelSpec softmaxBackwardSpec();
KernelSpec logSoftmaxSpec();
KernelSpec logSoftmaxBackwardSpec();
KernelSpec crossEntropySpec();
KernelSpec crossEntropyBackwardSpec();
KernelSpec linearCrossEntropySpec();
KernelSpec layerNormSpec();
KernelSpec layerNormBackwardSpec();
KernelSpec rmsNormSpec();
KernelSpec rmsNormBackwardSpec();
KernelSpec rmsNormGatedSpec();
KernelSpec rmsNormGatedBackwardSpec();
KernelSpec groupNormSpec();
KernelSpec groupNormBackwardSpec();

} // namespace sectile
