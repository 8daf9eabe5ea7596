// Threads that the system does not give: work is done by those that there are.
#include "autotune/Prepare.h"
#include "kernels/references/Parallel.h"
#include "vgpu/VirtualDevice.h"
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sectile/sectile.h>

namespace {
std::atomic<int> left = -1; // that may start; negative: all
std::atomic<int> refused = 0;
const bool withoutCache = setenv("SECTILE_CACHE_DIR", "", 1) == 0;
} // namespace

extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                              void *(*start)(void *), void *argument) {
  if (left >= 0 && left-- <= 0) {
    left = 0;
    ++refused;
    return EAGAIN;
  }
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, start, argument);
}

using namespace sectile;

namespace {

Kernel places{"places", [](Ptr<int> out) { store(out + program_id(0), Tile<int>(1)); }};

class Threads : public testing::TestWithParam<int> {
protected:
  void SetUp() override {
    refused = 0;
    left = GetParam();
  }
  void TearDown() override { left = -1; }
};

} // namespace

TEST_P(Threads, LaunchesOfVirtualGpus) {
  const Device device = Device::open("virtual:sm_80");
  vgpu::LaunchOptions options;
  options.hostThreads = 4;
  static_cast<runtime::VirtualDevice &>(*device.impl()).setOptions(options);
  auto out = device.allocate<int>(64);
  out.fill(0);
  places.launch(device.stream(), 64, out);
  EXPECT_EQ(out.download(), std::vector<int>(64, 1));
  EXPECT_GT(refused, 0);
}

TEST_P(Threads, References) {
  std::atomic<int> sum = 0;
  parallelFor(100, [&](std::int64_t i) { sum += static_cast<int>(i); });
  EXPECT_EQ(sum, 4950);
}

TEST_P(Threads, CompilesOfCandidates) {
  const Device device = Device::open("virtual:sm_80");
  auto out = device.allocate<int>(64);
  const autotune::TuningTask task{device.stream(), {}, {"a", "b", "c"}, {"", "", ""}, [&](size_t) {
                                    return places.bind(64, out);
                                  }};
  autotune::Preparation preparation(task, device, 3);
  preparation.estimate(
      {0, 1, 2}, [](size_t, const std::string &) { return false; }, [] { return false; },
      [](size_t) {});
  preparation.start({0, 1, 2});
  for (size_t i = 0; i < 3; ++i) {
    preparation.wait(i);
    EXPECT_TRUE(preparation.at(i).kernel);
  }
  preparation.finish([] { return false; });
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Given, Threads, testing::Values(0, 1));
