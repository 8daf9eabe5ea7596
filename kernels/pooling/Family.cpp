// The kernels of this family, in the order in which they are listed.
#include "kernels/pooling/Family.h"

std::vector<sectile::KernelSpec> sectile::poolingKernels() {
  return {meanPoolSpec(), meanPoolBackwardSpec(), chunkMeanPoolSpec(), chunkMeanPoolBackwardSpec()};
}
