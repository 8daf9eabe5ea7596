// The kernels of this family, in the order in which they are listed.
#include "kernels/norm/Family.h"

std::vector<sectile::KernelSpec> sectile::normKernels() {
  return {softmaxSpec(),
          softmaxBackwardSpec(),
          logSoftmaxSpec(),
          logSoftmaxBackwardSpec(),
          crossEntropySpec(),
          crossEntropyBackwardSpec(),
          linearCrossEntropySpec(),
          layerNormSpec(),
          layerNormBackwardSpec(),
          rmsNormSpec(),
          rmsNormBackwardSpec(),
          rmsNormGatedSpec(),
          rmsNormGatedBackwardSpec(),
          groupNormSpec(),
          groupNormBackwardSpec()};
}
