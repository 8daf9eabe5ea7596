// The devices that kernels are tested on. SECTILE_TEST_DEVICES names others, with commas between
// them: "cuda:0" runs the same tests on a chip.
#pragma once
#include <cctype>
#include <cstdlib>
#include <gtest/gtest.h>
#include <sectile/sectile.h>
#include <sstream>

namespace sectile::test {

/// What is compiled is compiled anew, not taken from a cache on disk.
inline const bool withoutCache = setenv("SECTILE_CACHE_DIR", "", 1) == 0;

inline std::vector<std::string>
devices(const char *usual = "interpreter,virtual:sm_80,virtual:sm_90a,virtual:gfx942") {
  const char *chosen = std::getenv("SECTILE_TEST_DEVICES");
  std::stringstream names(chosen ? chosen : usual);
  std::vector<std::string> result;
  for (std::string name; std::getline(names, name, ',');)
    result.push_back(name);
  return result;
}

inline std::string testName(const testing::TestParamInfo<std::string> &info) {
  std::string name = info.param;
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)))
      c = '_';
  return name;
}

/// A test that runs on each of the devices: TEST_P(Name, …) after SECTILE_ON_DEVICES(Name).
class OnDevice : public testing::TestWithParam<std::string> {
protected:
  Device device = Device::open(GetParam());
};

} // namespace sectile::test

#define SECTILE_INSTANTIATE_ON(name, ...)                                                          \
  INSTANTIATE_TEST_SUITE_P(Devices, name, testing::ValuesIn(sectile::test::devices(__VA_ARGS__)),  \
                           sectile::test::testName)
#define SECTILE_ON_DEVICES(name)                                                                   \
  class name : public sectile::test::OnDevice {};                                                  \
  SECTILE_INSTANTIATE_ON(name)
