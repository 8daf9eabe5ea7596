// The kernels of this family, in the order in which they are listed.
#include "kernels/experts/Family.h"

std::vector<sectile::KernelSpec> sectile::expertKernels() {
  return {moeRouteSpec(), moeRouteBackwardSpec(), moePermuteSpec(),        moeUpSpec(),
          moeDownSpec(),  moeCombineSpec(),       moeCombineBackwardSpec()};
}
