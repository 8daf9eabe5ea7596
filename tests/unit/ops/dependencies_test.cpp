// Launches that may overlap the kernel ahead of them give what launches in order give.
#include "Devices.h"

namespace sc = sectile;

namespace {

SECTILE_ON_DEVICES(Dependencies);

TEST_P(Dependencies, KeepTheOrderOfWhatIsWritten) {
  sc::Kernel step{"step", [](sc::Ptr<const float> x, sc::Ptr<float> y, sc::Ptr<const float> w) {
                    auto i = sc::program_id(0) * 64 + sc::arange(0, 64);
                    auto weight = sc::load(w + i); // no kernel writes it
                    sc::wait_dependencies();
                    auto sum = sc::load(x + (959 - i)) + weight;
                    sc::launch_dependents();
                    sc::store(y + i, sum);
                  }};
  std::vector<float> start(960), weights(960);
  for (size_t i = 0; i < 960; ++i) {
    start[i] = static_cast<float>(i);
    weights[i] = static_cast<float>(i % 7);
  }
  auto x = device.upload(start), y = device.allocate<float>(960), w = device.upload(weights);
  for (int round = 0; round < 4; ++round) {
    step.launch(device.stream(), 15, x, y, w, {.dependent = round > 0});
    std::swap(x, y);
  }
  std::vector<float> want = start, next(960);
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < 960; ++i)
      next[i] = want[959 - i] + weights[i];
    want.swap(next);
  }
  EXPECT_EQ(x.download(), want);
}

TEST_P(Dependencies, AreNoneInOtherLaunches) {
  sc::Kernel kernel{"alone",
                    [](sc::Ptr<int> x) {
                      sc::launch_dependents();
                      sc::wait_dependencies();
                      sc::store(x, 5);
                    },
                    {.dependent = true}};
  auto x = device.upload(std::vector<int>{0});
  kernel.launch(device.stream(), 1, x);
  EXPECT_EQ(x.download()[0], 5);
}

} // namespace
