// The autotuner on a device with time of its own, the fake CUDA driver's, where this process
// measures: runs, flushes, devices that fail, and what listeners are told.
#include "autotune/Database.h"
#include "autotune/Measure.h"
#include "autotune/Records.h"
#include "tests/fake/fake_cuda.h"
#include <atomic>
#include <cstdlib>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sectile/activity.h>
#include <sectile/autotune.h>
#include <sectile/sectile.h>

using namespace sectile;
using testing::HasSubstr;

namespace {

const bool chosen = setenv("SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA, 1) == 0 &&
                    setenv("SECTILE_MEASURE", "", 1) == 0 &&
                    setenv("SECTILE_CACHE_DIR", "", 1) == 0 &&
                    setenv("SECTILE_AUTOTUNE", "on", 1) == 0;

template <class F> F *fake(const char *symbol) {
  static void *library = dlopen(SECTILE_FAKE_CUDA, RTLD_NOW);
  return reinterpret_cast<F *>(dlsym(library, symbol));
}
int calls(const char *symbol) { return fake<decltype(fakeCudaCalls)>("fakeCudaCalls")(symbol); }
void failing(const char *symbol, int times) {
  constexpr int illegalAddress = 700;
  fake<decltype(fakeCudaFail)>("fakeCudaFail")(symbol, illegalAddress, times);
}

struct Block {
  int size = 128;
};
SECTILE_CONFIG(Block, size)

// Each test tunes a kernel with code of its own: what one finds out, the others do not know. The
// driver runs what is called fake_add, an element for each thread of the grid.
template <int test>
Kernel add{"fake_add",
           [](Ptr<const float> x, Ptr<const float> y, Ptr<float> z, Int n, const Block &block) {
             auto i = program_id(0) * block.size + arange(0, block.size);
             store(z + i, load(x + i, i < n) + load(y + i, i < n) + float(test), i < n);
           }};

class AutotuneDevice : public testing::Test {
protected:
  AutotuneDevice() { options.quiet = true; }

  template <class K> TuneReport tune(K &kernel, std::initializer_list<int> sizes) {
    Autotuner tuned{kernel, space(&Block::size, sizes), options};
    return tuned.tune(
        device.stream(),
        [&](const Block &block) {
          onGrid();
          return 1024 / block.size;
        },
        x, y, z, 1024);
  }

  std::function<void()> onGrid = [] {};
  int launched = 0;
  AutotuneOptions options;
  Device device = Device::open("cuda:0");
  Buffer<float> x = device.upload(std::vector<float>(1024, 1)),
                y = device.upload(std::vector<float>(1024, 2)),
                z = device.upload(std::vector<float>(1024, 7));
};

// A process that tunes much does not keep what it tried.
TEST_F(AutotuneDevice, CandidatesAreUnloaded) {
  tune(add<20>, {32, 64}); // loads the flush
  device.synchronize();
  device.trim();
  const int loads = calls("cuModuleLoadDataEx"), unloads = calls("cuModuleUnload");
  EXPECT_EQ(tune(add<21>, {32, 64, 128, 256}).rows.size(), 4u);
  device.synchronize();
  device.trim();
  EXPECT_EQ(calls("cuModuleLoadDataEx") - loads, 4);
  EXPECT_EQ(calls("cuModuleUnload") - unloads, 4);
}

TEST_F(AutotuneDevice, RunsAreTimedByEventsAfterAFlush) {
  const int launches = calls("cuLaunchKernel"), fills = calls("cuMemsetD32Async"),
            events = calls("cuEventElapsedTime");
  const TuneReport report = tune(add<1>, {32, 64, 128});
  ASSERT_EQ(report.rows.size(), 3u);
  EXPECT_EQ(report.device, device.description());
  unsigned runs = 0;
  for (const auto &row : report.rows) {
    EXPECT_TRUE(row.verdict == TuneVerdict::good || row.verdict == TuneVerdict::hopeless)
        << row.message;
    EXPECT_EQ(row.runs, row.verdict == TuneVerdict::good ? 20u : 3u) << row.config;
    EXPECT_GT(row.microseconds, 0);
    EXPECT_EQ(row.registers, 24u) << "as the driver says";
    runs += row.runs;
  }
  EXPECT_EQ(report.rows[report.best].verdict, TuneVerdict::good);
  EXPECT_EQ(calls("cuEventElapsedTime") - events, int(runs));
  EXPECT_EQ(calls("cuMemsetD32Async") - fills, int(runs));
  EXPECT_EQ(calls("cuLaunchKernel") - launches, int(runs) + 5)
      << "each once to be checked, the reference twice more on spoiled memory";
  EXPECT_EQ(z.download(), std::vector<float>(1024, 7));
}

TEST_F(AutotuneDevice, HalvingGivesTheBetterOnesMoreRuns) {
  options.strategy = Strategy::halving;
  const TuneReport report = tune(add<2>, {4, 8, 16, 32, 64, 128});
  unsigned most = 0;
  for (const auto &row : report.rows)
    most = std::max(most, row.verdict == TuneVerdict::good ? row.runs : 0);
  EXPECT_GT(most, 6u);
  for (const auto &row : report.rows) {
    if (row.verdict == TuneVerdict::hopeless) {
      EXPECT_THAT(row.message, HasSubstr("in the slower half after"));
    }
  }
}

TEST_F(AutotuneDevice, AFailedLaunchIsOneCandidates) {
  options.threads = 1;
  std::atomic<bool> planted = false;
  onGrid = [&] {
    if (calls("cuLaunchKernel") > launched + 21 && !planted.exchange(true))
      failing("cuLaunchKernel", 1);
  };
  launched = calls("cuLaunchKernel");
  const TuneReport report = tune(add<3>, {8, 16, 32, 64, 128});
  unsigned failed = 0;
  for (const auto &row : report.rows)
    if (row.verdict == TuneVerdict::failed) {
      ++failed;
      EXPECT_THAT(row.message, HasSubstr("launching kernel 'fake_add'"));
    }
  EXPECT_EQ(failed, 1u) << report.text();
  EXPECT_TRUE(report.problem.empty()) << report.problem;
  EXPECT_EQ(report.rows[report.best].verdict, TuneVerdict::good);
}

TEST_F(AutotuneDevice, ADeviceThatIsLostEndsTheTuning) {
  onGrid = [&] {
    if (calls("cuLaunchKernel") > launched + 21)
      for (const char *symbol : {"cuLaunchKernel", "cuMemAlloc_v2", "cuStreamSynchronize"})
        failing(symbol, 1000000);
  };
  launched = calls("cuLaunchKernel");
  const TuneReport report = tune(add<4>, {2, 4, 8, 16, 32, 64, 128});
  for (const char *symbol : {"cuLaunchKernel", "cuMemAlloc_v2", "cuStreamSynchronize"})
    failing(symbol, 0);
  EXPECT_THAT(report.problem, HasSubstr("the device can do no more: cuda:0: "));
  EXPECT_LT(report.rows.size(), 7u);
  EXPECT_EQ(report.rows[0].verdict, TuneVerdict::good) << "what was measured is kept";
  EXPECT_THAT(report.text(), HasSubstr(report.problem));
}

TEST_F(AutotuneDevice, ListenersHearOfEachCandidate) {
  std::vector<std::string> heard;
  const Listening listening([&](const Activity &activity) {
    if (activity.kind == Activity::Kind::tune)
      heard.push_back(activity.name + " " + activity.configuration);
  });
  Autotuner tuned{add<5>, space(&Block::size, {64, 128}), options};
  tuned.launch(
      device.stream(), [](const Block &block) { return 1024 / block.size; }, x, y, z, 1024);
  EXPECT_THAT(heard, testing::ElementsAre("lookup 3=1024", "wait 3=1024",
                                          "candidate size=128 warps=4 stages=3",
                                          "candidate size=64 warps=4 stages=3"));
}

// What was measured depends on machine code, which the driver makes: another driver's measurements
// do not stand in for new ones.
TEST_F(AutotuneDevice, AnotherDriversMeasurementsAreMadeAgain) {
  auto timed = [&] {
    const int before = calls("cuEventElapsedTime");
    tune(add<6>, {64, 128});
    return calls("cuEventElapsedTime") - before;
  };
  EXPECT_GT(timed(), 0);
  EXPECT_EQ(timed(), 0) << "known";
  autotune::Database &database = autotune::Database::get();
  unsigned found = 0;
  for (const auto &[key, measurements, origin] : database.problems("fake_add"))
    for (autotune::Measurement measurement : measurements) {
      EXPECT_EQ(measurement.toolchain.driver, "CUDA 99.0") << "as the fake driver says";
      measurement.toolchain.driver = "CUDA 12.9";
      database.record(key, measurement);
      ++found;
    }
  EXPECT_GE(found, 2u);
  EXPECT_GT(timed(), 0);
  EXPECT_EQ(timed(), 0);
}

TEST(Summary, IsMedianAndInterquartileRange) {
  const autotune::Timing timing = autotune::summarize({5, 1, 3, 2, 4});
  EXPECT_EQ(timing.median, 3);
  EXPECT_EQ(timing.spread, 2);
  EXPECT_EQ(timing.runs, 5u);
  EXPECT_EQ(autotune::summarize({}).runs, 0u);
  EXPECT_EQ(autotune::summarize({1, 2}).median, 1.5);
}

} // namespace
