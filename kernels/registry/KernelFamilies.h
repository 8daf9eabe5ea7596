// The registry's kernels by family, for listings.
#pragma once
#include "kernels/registry/Registry.h"

namespace sectile {

struct KernelFamily {
  std::string name; // "norms"
  std::vector<const KernelSpec *> kernels;
};

// In the registry's order; every kernel is in one.
const std::vector<KernelFamily> &kernelFamilies();

} // namespace sectile
