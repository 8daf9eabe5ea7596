// What the virtual GPU says of programs whose accesses of memory nothing orders: the line of the
// kernel.
#include "Devices.h"
#include <gmock/gmock.h>

namespace sc = sectile;

namespace {

class Races : public sc::test::OnDevice {
protected:
  void SetUp() override {
    if (!GetParam().starts_with("virtual:"))
      GTEST_SKIP() << "a chip does not look for races";
  }
  // What a launch of the kernel, over memory that was written, ends with.
  template <class Kernel> std::string errorOf(Kernel &kernel, unsigned programs) {
    auto z = device.upload(std::vector<int>(256));
    return errorOf(kernel, programs, z);
  }
  template <class Kernel>
  std::string errorOf(Kernel &kernel, unsigned programs, sc::Buffer<int> &z) {
    try {
      kernel.launch(device.stream(), programs, z);
      device.synchronize();
    } catch (const sc::DeviceError &error) {
      return error.what();
    }
    return "nothing was found";
  }
};
SECTILE_INSTANTIATE_ON(Races, "virtual:sm_80,virtual:sm_90a,virtual:gfx942,virtual:gfx1100");

std::string inLine(int line, const std::string &what) {
  return "races_test.cpp:" + std::to_string(line) + ", .*: " + what;
}

TEST_P(Races, ElementsThatMeet) {
  const int line = __LINE__ + 3;
  sc::Kernel kernel{"meet", [](sc::Ptr<int> z) {
                      auto i = sc::arange(0, 256);
                      sc::store(z + i / 2, i);
                    }};
  EXPECT_THAT(errorOf(kernel, 1), testing::ContainsRegex(inLine(line, "global-memory race: ")));
}

TEST_P(Races, ProgramsThatStoreOneElement) {
  const int line = __LINE__ + 1;
  sc::Kernel kernel{"one", [](sc::Ptr<int> z) { sc::store(z, sc::program_id(0)); }};
  EXPECT_THAT(errorOf(kernel, 8),
              testing::ContainsRegex(inLine(
                  line, "global-memory race: .* a write by thread 0 of block \\([0-7],0,0\\)")));
  EXPECT_EQ(errorOf(kernel, 1), "nothing was found");
}

TEST_P(Races, ProgramsThatReadWhatTheNextOneWrites) {
  sc::Kernel kernel{"neighbours", [](sc::Ptr<int> z) {
                      auto at = z + sc::program_id(0) * 32 + sc::arange(0, 32);
                      sc::store(at, sc::load(at + 32) + 1);
                    }};
  EXPECT_THAT(errorOf(kernel, 4), testing::HasSubstr("global-memory race: "));
}

TEST_P(Races, WhatNothingWrote) {
  const int line = __LINE__ + 3;
  sc::Kernel kernel{"unwritten", [](sc::Ptr<int> z) {
                      auto i = sc::arange(0, 64);
                      sc::store(z + 64 + i, sc::load(z + i, i < 40));
                    }};
  auto z = device.allocate<int>(128);
  z.slice(0, 40).fill(1);
  EXPECT_EQ(errorOf(kernel, 1, z), "nothing was found");
  auto less = device.allocate<int>(128);
  less.slice(0, 39).fill(1);
  EXPECT_THAT(
      errorOf(kernel, 1, less),
      testing::ContainsRegex(inLine(line, "uninitialised read: .* of byte 156 of an allocation "
                                          "of 512, which nothing has written")));
}

} // namespace
