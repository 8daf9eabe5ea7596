// The kernels of this family, in the order in which they are listed.
#include "kernels/elementwise/Family.h"

std::vector<sectile::KernelSpec> sectile::elementwiseKernels() {
  return {vectorAddSpec(),       activationSpec(), activationBackwardSpec(), swigluSpec(),
          swigluBackwardSpec(),  gegluSpec(),      gegluBackwardSpec(),      dropoutSpec(),
          dropoutBackwardSpec(), embeddingSpec(),  embeddingBackwardSpec()};
}
