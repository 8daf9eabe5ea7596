// The kernels of this family, in the order in which they are listed.
#include "kernels/quantize/Family.h"

std::vector<sectile::KernelSpec> sectile::quantizeKernels() {
  return {quantizeSpec(), siluMulQuantizeSpec(), rmsNormQuantSpec()};
}
