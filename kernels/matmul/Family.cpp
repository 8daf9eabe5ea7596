// The kernels of this family, in the order in which they are listed.
#include "kernels/matmul/Family.h"

std::vector<sectile::KernelSpec> sectile::matmulKernels() {
  return {matmulSpec(),          batchedMatmulSpec(), groupedMatmulSpec(), groupedMatmulDrhsSpec(),
          quantizedMatmulSpec(), scaledMatmulSpec(),  mxMatmulSpec()};
}
