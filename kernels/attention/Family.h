// The specifications of this family, each defined beside its kernel.
#pragma once
#include "kernels/registry/Families.h"

namespace sectile {

KernelSpec attentionSpec();
KernelSpec attentionBackwardSpec();
// Without launches: attention's for a kernel whose programs have one block of one head each, and
// all of its keys; the gradients' of such a kernel, whose programs share no sums.
KernelSpec blockAttentionSpec();
KernelSpec attentionGradientsSpec(const KernelSpec &forward);
// Adds the choice of programs that do one block after another, or rows of several heads.
void addPrograms(KernelSpec &spec);
KernelSpec attentionVarlenSpec();
KernelSpec attentionVarlenBackwardSpec();

} // namespace sectile
