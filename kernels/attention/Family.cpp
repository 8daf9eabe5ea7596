// The kernels of this family, in the order in which they are listed.
#include "kernels/attention/Family.h"

std::vector<sectile::KernelSpec> sectile::attentionKernels() {
  return {attentionSpec(), attentionBackwardSpec(), attentionVarlenSpec(),
          attentionVarlenBackwardSpec()};
}
