// The kernels of this family, in the order in which they are listed.
#include "kernels/ring/Family.h"

std::vector<sectile::KernelSpec> sectile::ringKernels() {
  return {ringAttentionSpec(), ringAttentionBackwardSpec()};
}
