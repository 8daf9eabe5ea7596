// A launch of a known specialisation: no allocation. And that its cost can be measured.
#include "bench/Launch.h"
#include "bench/NullDevice.h"
#include "count_allocations.h"
#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>
#include <sectile/sectile.h>

using namespace sectile;

static const bool inMemory = setenv("SECTILE_CACHE_DIR", "", 1) == 0;

TEST(BenchLaunch, AKnownSpecialisationAllocatesNothing) {
  Kernel kernel{"negate", [](View<const float, 2> from, View<float, 2> to, Int n) {
                  store(to.ptr() + n, -load(from.ptr() + n));
                }};
  const Device device = bench::NullDevice::open("sm_80");
  const auto buffer = device.allocate<float>(64);
  const auto square = tensor(buffer, {8, 8});
  kernel.launch(device.stream(), 1, square, square, 3);
  auto &impl = static_cast<bench::NullDevice &>(*device.impl());
  ASSERT_EQ(impl.launches, 1u);
  const size_t before = allocations;
  for (int n = 3; n < 9; n += 2)
    kernel.launch(device.stream(), {1, 2}, square, square, n);
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(impl.launches, 4u);
}

// How long a launch takes is for `sectile bench launch` to say: a machine that is busy with other
// work must not fail a test.
TEST(BenchLaunch, MeasuresEveryKernel) {
  std::vector<bench::LaunchCost> costs = bench::measureLaunches();
  EXPECT_FALSE(costs.empty());
  for (const bench::LaunchCost &cost : costs)
    EXPECT_GT(cost.nanoseconds, 1) << cost.kernel;
}
