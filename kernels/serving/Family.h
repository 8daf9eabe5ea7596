// The specifications of this family, each defined beside its kernel.
#pragma once
#include "kernels/registry/Families.h"

namespace sectile {

KernelSpec attentionMergeSpec();
KernelSpec pagedPlanSpec();
KernelSpec pagedDecodeSpec();
KernelSpec pagedPrefillSpec();
KernelSpec attentionCachedSpec();
KernelSpec latentDecodeSpec();
KernelSpec latentSparseSpec();
KernelSpec pagedSlotsSpec();
KernelSpec kvAppendSpec();
KernelSpec ropeAppendSpec();
KernelSpec blockSparseAttentionSpec();
KernelSpec blockSparseAttentionBackwardSpec();

} // namespace sectile
