// The kernels of this family, in the order in which they are listed.
#include "kernels/conv/Family.h"

std::vector<sectile::KernelSpec> sectile::convKernels() {
  return {conv2dSpec(), conv2dBackwardSpec(), causalConv1dSpec(), causalConv1dBackwardSpec(),
          causalConv1dUpdateSpec()};
}
