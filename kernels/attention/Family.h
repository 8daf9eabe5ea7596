// The specifications of this family, each defined beside its kernel.
#pragma once
#include "kernels/Families.h"

namespace sectile {

KernelSpec attentionSpec();
KernelSpec attentionBackwardSpec();
// attention_backward's for a kernel whose programs share no sums, without its launches.
KernelSpec attentionGradientsSpec();
KernelSpec attentionVarlenSpec();
KernelSpec attentionVarlenBackwardSpec();

} // namespace sectile
