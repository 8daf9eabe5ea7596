// The kernels of this family, in the order in which they are listed.
#include "kernels/collection/Family.h"

std::vector<sectile::KernelSpec> sectile::collectionKernels() {
  return {reduceSpec(), scanSpec(), sortSpec(), argsortSpec(), topkSpec(), histogramSpec()};
}
