// Names for tests that run once for each kernel of the library.
#pragma once
#include "kernels/registry/Registry.h"
#include <gtest/gtest.h>

namespace sectile::test {

inline std::vector<std::string> kernelNames() {
  std::vector<std::string> names;
  for (const KernelSpec &kernel : kernelRegistry())
    names.push_back(kernel.name);
  return names;
}
inline std::string caseName(const testing::TestParamInfo<std::string> &info) { return info.param; }

} // namespace sectile::test
