// The kernels of this family, in the order in which they are listed.
#include "kernels/sampling/Family.h"

std::vector<sectile::KernelSpec> sectile::samplingKernels() {
  return {sampleSpec(), renormalizeSpec(), speculativeVerifySpec()};
}
