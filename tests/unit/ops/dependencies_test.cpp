// Launches that may overlap the kernel ahead of them give what launches in order give.
#include "Devices.h"
#include "runtime/LaunchAccess.h"
#include <gmock/gmock.h>

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

// A kernel that says nothing waits before all else, and lets the next one start.
TEST_P(Dependencies, AreWaitedForByKernelsThatSayNothing) {
  sc::Kernel shift{"shift", [](sc::Ptr<const int> x, sc::Ptr<int> y) {
                     auto i = sc::program_id(0) * 64 + sc::arange(0, 64);
                     sc::store(y + i, sc::load(x + (959 - i)) + 1);
                   }};
  auto x = device.upload(std::vector<int>(960, 1)), y = device.allocate<int>(960);
  for (int round = 0; round < 6; ++round) {
    shift.launch(device.stream(), 15, x, y, {.dependent = true});
    std::swap(x, y);
  }
  EXPECT_EQ(x.download(), std::vector<int>(960, 7));
}

auto places() { return sc::program_id(0) * 64 + sc::arange(0, 64); }

const sc::Kernel copy{"copy", [](sc::Ptr<const int> x, sc::Ptr<int> y) {
                        sc::store(y + places(), sc::load(x + places()));
                      }};
const sc::Kernel readsEarly{"reads_early", [](sc::Ptr<const int> x, sc::Ptr<int> y) {
                              auto early = sc::load(x + places());
                              sc::wait_dependencies();
                              sc::store(y + places(), early);
                            }};
const sc::Kernel writesEarly{"writes_early", [](sc::Ptr<const int> x, sc::Ptr<int> y) {
                               sc::store(y + places(), 1);
                               sc::wait_dependencies();
                               sc::store(y + places(), sc::load(x + places()));
                             }};
const sc::Kernel letsStartEarly{"lets_start_early", [](sc::Ptr<const int> x, sc::Ptr<int> y) {
                                  sc::launch_dependents();
                                  sc::wait_dependencies();
                                  sc::store(y + places(), sc::load(x + places()));
                                }};
const sc::Kernel addsEarly{"adds_early", [](sc::Ptr<const int> x, sc::Ptr<int> y) {
                             sc::atomic_add(y + places(), sc::full<int>(2, 64));
                             sc::wait_dependencies();
                             sc::atomic_add(y + places(), sc::load(x + places()));
                           }};
const sc::Kernel waitsSometimes{"waits_sometimes", [](sc::Ptr<const int> x, sc::Ptr<int> y) {
                                  sc::when(sc::program_id(0) > 100, [&] {
                                    sc::wait_dependencies();
                                    sc::store(y, sc::load(x));
                                  });
                                }};

// The virtual GPU finds what a launch does too early with memory that earlier ones use. Their order
// there is that of the stream, so that results alone would be right.
class MissingWaits : public testing::Test {
protected:
  template <class Launch> static std::string findingOf(Launch &&launch) {
    try {
      launch();
    } catch (const sc::DeviceError &error) {
      return error.what();
    }
    return "none";
  }

  sc::Device device = sc::Device::open("virtual:sm_90a");
  const sc::Stream stream = device.stream();
  sc::Buffer<int> a = device.upload(std::vector<int>(128, 3)), b = device.allocate<int>(128),
                  c = device.allocate<int>(128), d = device.allocate<int>(128);
  const sc::LaunchOptions overlaps{.dependent = true};
};

TEST_F(MissingWaits, AreFoundWhereMemoryIsReadThatTheLaunchAheadWrites) {
  copy.launch(stream, 2, a, b);
  EXPECT_THAT(findingOf([&] { readsEarly.launch(stream, 2, b, c, overlaps); }),
              testing::AllOf(testing::HasSubstr("missing wait: "),
                             testing::HasSubstr("kernel reads_early"),
                             testing::HasSubstr("which kernel copy, launched before, "
                                                "may not have written yet: ")));
}

TEST_F(MissingWaits, AreFoundWhereMemoryIsWrittenThatTheLaunchAheadReads) {
  copy.launch(stream, 2, a, b);
  EXPECT_THAT(findingOf([&] { writesEarly.launch(stream, 2, b, a, overlaps); }),
              testing::HasSubstr("kernel copy, launched before, may not have read yet"));
  copy.launch(stream, 2, a, b);
  EXPECT_THAT(findingOf([&] { writesEarly.launch(stream, 2, a, b, overlaps); }),
              testing::HasSubstr("may not have written yet"));
}

TEST_F(MissingWaits, AreNoneOfOtherMemoryAndOtherLaunches) {
  copy.launch(stream, 2, a, b);
  readsEarly.launch(stream, 2, a, c, overlaps); // reads what the launch ahead reads
  readsEarly.launch(stream, 2, b, d, overlaps); // what was done when the launch ahead began
  copy.launch(stream, 2, a, b);
  readsEarly.launch(stream, 2, b, c); // not a dependent launch
  addsEarly.launch(stream, 2, a, d);  // atomic operations do not race with each other
  addsEarly.launch(stream, 2, a, d, overlaps);
  EXPECT_EQ(d.download(), std::vector<int>(128, 13));
  for (const auto &waits : std::initializer_list<std::function<void()>>{
           [&] { stream.synchronize(); }, [&] { device.synchronize(); }, [&] { b.download(); },
           [&] { d.fill(0, stream); }}) {
    copy.launch(stream, 2, a, b);
    waits();
    readsEarly.launch(stream, 2, b, c, overlaps);
  }
  EXPECT_EQ(c.download(), std::vector<int>(128, 3));
}

// A launch that lets the next one start before it has waited leaves that the ones ahead of it.
TEST_F(MissingWaits, AreFoundOfLaunchesFurtherAhead) {
  copy.launch(stream, 2, a, b);
  letsStartEarly.launch(stream, 2, a, c, overlaps);
  EXPECT_THAT(findingOf([&] { readsEarly.launch(stream, 2, b, d, overlaps); }),
              testing::HasSubstr("which kernel copy, launched before"));
  // What an ordinary launch lets start has that one ahead of it alone.
  copy.launch(stream, 2, a, b);
  letsStartEarly.launch(stream, 2, a, c);
  readsEarly.launch(stream, 2, b, d, overlaps);
}

// However it ends, a launch has waited: the next one sees what the ones ahead of both did.
TEST_F(MissingWaits, AreMadeUpForAtTheEnd) {
  copy.launch(stream, 2, a, b);
  waitsSometimes.launch(stream, 2, a, c, overlaps);
  readsEarly.launch(stream, 2, b, d, overlaps);
  EXPECT_EQ(d.download(), std::vector<int>(128, 3));
}

// What a launch is told of its code.
TEST_F(MissingWaits, AreKnownOfTheCode) {
  const auto waitOf = [&](const auto &kernel, const char *target) {
    return sc::runtime::LaunchAccess::code(kernel.bind(2, a, b), sc::Device::open(target))
        ->plan.wait;
  };
  EXPECT_EQ(waitOf(copy, "virtual:sm_90a"), sc::WaitPoint::Start);
  EXPECT_EQ(waitOf(readsEarly, "virtual:sm_90a"), sc::WaitPoint::ByHand);
  EXPECT_EQ(waitOf(waitsSometimes, "virtual:sm_90a"), sc::WaitPoint::ByHand);
  for (const char *target : {"virtual:sm_80", "virtual:gfx942"}) {
    EXPECT_EQ(waitOf(copy, target), sc::WaitPoint::None);
    EXPECT_EQ(waitOf(readsEarly, target), sc::WaitPoint::None);
  }
}

} // namespace
