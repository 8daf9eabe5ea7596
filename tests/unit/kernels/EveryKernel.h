// What tests that run once for each kernel of the library share: names, and devices by turns.
#pragma once
#include "../ops/Devices.h"
#include "kernels/registry/Registry.h"
#include "tests/unit/Processes.h"
#include <gtest/gtest.h>

namespace sectile::test {

inline std::vector<std::string> kernelNames() {
  std::vector<std::string> names;
  for (const KernelSpec &kernel : kernelRegistry())
    names.push_back(kernel.name);
  return names;
}
/// One of these devices by turns, with SECTILE_TEST_ALL=1 all of them.
inline std::vector<std::string> devicesInTurn(const std::vector<std::string> &all,
                                              std::size_t turn) {
  std::string usual = all[turn % all.size()];
  if (count(0, 1) == 1)
    for (const std::string &name : all)
      if (name != all[turn % all.size()])
        usual += "," + name;
  return devices(usual.c_str());
}

inline std::string caseName(const testing::TestParamInfo<std::string> &info) { return info.param; }

} // namespace sectile::test
