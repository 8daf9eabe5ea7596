// The kernels' specifications, each defined beside its kernel.
#pragma once
#include "kernels/Registry.h"

namespace sectile {

KernelSpec vectorAddSpec();
KernelSpec softmaxSpec();
KernelSpec layerNormSpec();
KernelSpec matmulSpec();
KernelSpec attentionSpec();

} // namespace sectile
