// The specifications of this family, each defined beside its kernel.
#pragma once
#include "kernels/registry/Families.h"

namespace sectile {

KernelSpec ropeSpec();
KernelSpec ropeBackwardSpec();
KernelSpec addPositionsSpec();
KernelSpec addPositionsBackwardSpec();
KernelSpec sinusoidalSpec();
KernelSpec sinusoidalBackwardSpec();
KernelSpec ropeAttentionSpec();
KernelSpec ropeAttentionBackwardSpec();
KernelSpec reropeAttentionSpec();
KernelSpec reropeAttentionBackwardSpec();
KernelSpec exposbAttentionSpec();
KernelSpec exposbAttentionBackwardSpec();
KernelSpec stickBreakingSpec();
KernelSpec stickBreakingBackwardSpec();

} // namespace sectile
