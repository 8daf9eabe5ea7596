// The kernels of this family, in the order in which they are listed.
#include "kernels/serving/Family.h"

std::vector<sectile::KernelSpec> sectile::servingKernels() {
  return {attentionMergeSpec(),
          pagedPlanSpec(),
          pagedDecodeSpec(),
          pagedPrefillSpec(),
          attentionCachedSpec(),
          latentDecodeSpec(),
          latentSparseSpec(),
          pagedSlotsSpec(),
          kvAppendSpec(),
          ropeAppendSpec(),
          blockSparseAttentionSpec(),
          blockSparseAttentionBackwardSpec()};
}
