// Candidates that never end, take the device with them, or the whole process, where the user's own
// process measures: each is not tried again. The virtual GPU ends what does not end; a driver's
// process has to.
#include "runtime/DeviceImpl.h"
#include "tests/fake/fake_cuda.h"
#include "tests/unit/Processes.h"
#include <algorithm>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sectile/activity.h>
#include <sectile/autotune.h>
#include <sectile/sectile.h>

using namespace sectile;
using testing::HasSubstr;

namespace {

size_t count(const TuneReport &report, TuneVerdict verdict) {
  return static_cast<size_t>(
      std::count_if(report.rows.begin(), report.rows.end(),
                    [&](const TuneReport::Row &row) { return row.verdict == verdict; }));
}

AutotuneOptions options(double deadline) {
  AutotuneOptions options;
  options.quiet = true;
  options.deadline = deadline;
  return options;
}

//===-- The virtual GPU -----------------------------------------------------------------------===//

struct Trap {
  int kind = 0;
};
SECTILE_CONFIG(Trap, kind)

auto trapped = [](Ptr<const float> x, Ptr<float> y, Int n, const Trap &trap) {
  auto i = arange(0, 256);
  Int left = n;
  if (trap.kind == 1) // without memory
    loop_while([&] { return left > 0; }, [&] { left = left % 7 + 1; });
  if (trap.kind == 2) // with barriers
    loop_while([&] { return left > 0; },
               [&] { left = cast<std::int32_t>(sum(load(x + i))) % 7 + 1; });
  if (trap.kind == 3) { // waits for what nobody writes
    store(y, 1.0f);
    loop_while([&] { return left > 0; },
               [&] { left = cast<std::int32_t>(atomic_add(y, 0.0f)) % 7 + 1; });
  }
  store(y + i, load(x + i) * 2.0f + cast<float>(left));
};

//===-- A driver ------------------------------------------------------------------------------===//

struct Block {
  int size = 128;
};
SECTILE_CONFIG(Block, size)

auto makeAdd() {
  return Kernel{"fake_add", [](Ptr<const float> x, Ptr<const float> y, Ptr<float> z, Int n,
                               const Block &block) {
                  auto i = program_id(0) * block.size + arange(0, block.size);
                  store(z + i, load(x + i, i < n) + load(y + i, i < n), i < n);
                }};
}
auto tuner(const decltype(makeAdd()) &kernel) {
  return Autotuner{kernel, space(&Block::size, {8, 16, 32, 64, 128}), options(2)};
}

class AutotuneDeadline : public testing::Test {
protected:
  AutotuneDeadline() {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    setenv("SECTILE_CACHE_DIR", folder.c_str(), 1);
    setenv("SECTILE_TUNING_PATH", "", 1);
    setenv("SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA, 1);
    setenv("SECTILE_HIP_LIBRARY", SECTILE_FAKE_HIP, 1);
    setenv("SECTILE_MEASURE", "", 1);
    setenv("SECTILE_AUTOTUNE", "on", 1);
  }
  ~AutotuneDeadline() override { std::filesystem::remove_all(folder); }

  struct Sum {
    Device device = Device::open("cuda:0");
    Buffer<float> x = device.upload(std::vector<float>(1024, 1)),
                  y = device.upload(std::vector<float>(1024, 2)),
                  z = device.upload(std::vector<float>(1024, 7));
    decltype(makeAdd()) add = makeAdd();
    decltype(tuner(add)) tuned = tuner(add);
    static Grid grid(const Block &block) { return 1024 / block.size; }
    TuneReport tune() { return tuned.tune(device.stream(), grid, x, y, z, 1024); }
    void launch() { tuned.launch(device.stream(), grid, x, y, z, 1024); }
  };

  // In another process, with a variable of the driver, which is loaded there: how it ends.
  static int inProcess(const std::function<void()> &body, const char *variable = "NONE",
                       const char *value = "") {
    test::Child child([&] {
      setenv(variable, value, 1);
      body();
      return testing::Test::HasFailure() ? 1 : 0;
    });
    return child.wait();
  }
  // What another process knows afterwards, and that it can go on.
  static void expectKnown(TuneVerdict verdict, const char *message) {
    const int status = inProcess([&] {
      Sum sum;
      const TuneReport report = sum.tune();
      EXPECT_EQ(report.problem, "");
      EXPECT_EQ(report.rows.size(), 5u);
      EXPECT_EQ(count(report, verdict), 1u) << report.text();
      EXPECT_EQ(count(report, TuneVerdict::good) + count(report, TuneVerdict::hopeless), 4u)
          << report.text();
      for (const TuneReport::Row &row : report.rows)
        if (row.verdict == verdict) {
          EXPECT_TRUE(row.known);
          EXPECT_THAT(row.message, HasSubstr(message));
        }
      EXPECT_EQ(report.rows[report.best].verdict, TuneVerdict::good);
      sum.launch();
      EXPECT_EQ(sum.z.download(), std::vector<float>(1024, 3));
    });
    EXPECT_EQ(status, 0);
  }

  // The reference is launched 23 times at most: this is a candidate's.
  static constexpr const char *inACandidate = "24";

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("sectile-deadline-" + std::to_string(getpid()));
};

TEST_F(AutotuneDeadline, TheVirtualGpuEndsWhatNeverEnds) {
  const int status = inProcess([] {
    Kernel kernel{"endless", trapped};
    const Device device = Device::open("virtual:sm_90a");
    auto x = device.upload(std::vector<float>(256, 3)),
         y = device.upload(std::vector<float>(256, 7));
    Autotuner tuned{kernel, space(&Trap::kind, {0, 1, 2, 3, 4}), options(1)};
    const TuneReport report = tuned.tune(device.stream(), Grid(1), x, y, 256);
    EXPECT_EQ(report.problem, "");
    for (const TuneReport::Row &row : report.rows)
      if (row.config < "kind=1" || row.config > "kind=4") {
        EXPECT_EQ(row.verdict, TuneVerdict::good) << row.message;
      } else {
        EXPECT_EQ(row.verdict, TuneVerdict::timed_out) << row.config;
        EXPECT_THAT(row.message, testing::ContainsRegex("deadline_test.cpp:[0-9]+, .*timed out: "
                                                        "the launch did not end within 1 s"));
      }
    EXPECT_EQ(report.rows.size(), 5u);
    EXPECT_THAT(report.text(), HasSubstr("  timed out: virtual:sm_90a"));
    tuned.launch(device.stream(), Grid(1), x, y, 256);
    EXPECT_EQ(y.download(), std::vector<float>(256, 262));
  });
  EXPECT_EQ(status, 0);
}

TEST_F(AutotuneDeadline, ADriverIsNotWaitedForWhenAKernelNeverEnds) {
  // The driver ends a process that waits for the kernel, in a destructor or anywhere.
  const int status = inProcess(
      [] {
        Sum sum;
        const TuneReport report = sum.tune();
        EXPECT_THAT(report.problem, HasSubstr("the device can do no more: cuda:0: a run of kernel "
                                              "'fake_add' did not end within 2 s"));
        EXPECT_EQ(count(report, TuneVerdict::timed_out), 1u) << report.text();
        EXPECT_EQ(report.rows[0].verdict, TuneVerdict::good);
        try {
          sum.launch();
          ADD_FAILURE() << "nothing runs behind a kernel that never ends";
        } catch (const DeviceError &error) {
          EXPECT_THAT(error.what(),
                      HasSubstr("cuda:0 is lost to this process: a run of kernel 'fake_add'"));
        }
      },
      "FAKE_CUDA_ENDLESS_LAUNCH", inACandidate);
  EXPECT_EQ(status, 0);
  expectKnown(TuneVerdict::timed_out, "did not end within 2 s");
}

TEST_F(AutotuneDeadline, ALaunchSaysThatTuningLostTheDevice) {
  const int status = inProcess(
      [] {
        Sum sum;
        try {
          sum.launch();
          ADD_FAILURE() << "the device can do no more";
        } catch (const DeviceError &error) {
          EXPECT_THAT(error.what(), HasSubstr("tuning kernel 'fake_add': after "));
          EXPECT_THAT(error.what(), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
          EXPECT_THAT(error.what(), HasSubstr("what was measured is kept"));
        }
      },
      "FAKE_CUDA_LOST_AFTER_LAUNCHES", inACandidate);
  EXPECT_EQ(status, 0);
  expectKnown(TuneVerdict::failed, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_F(AutotuneDeadline, WhatKillsTheProcessIsNotTriedAgain) {
  EXPECT_EQ(inProcess([] { Sum().tune(); }, "FAKE_CUDA_KILLED_AT_LAUNCH", inACandidate), -SIGKILL);
  expectKnown(TuneVerdict::unfinished, "it ended the process that ran it");
  // A launch asks whether somebody is at it, and takes what is known.
  const int status = inProcess([] {
    std::vector<std::string> heard;
    const Listening listening([&](const Activity &activity) {
      if (activity.kind == Activity::Kind::tune)
        heard.push_back(activity.name);
    });
    Sum().launch();
    EXPECT_THAT(heard, testing::ElementsAre("lookup", "wait"));
  });
  EXPECT_EQ(status, 0);
}

TEST_F(AutotuneDeadline, ALostDeviceIsAskedForNothing) {
  for (const char *name : {"cuda:0", "hip:0"}) {
    test::Child child([&] {
      const bool hip = std::string(name) == "hip:0";
      void *library = dlopen(hip ? SECTILE_FAKE_HIP : SECTILE_FAKE_CUDA, RTLD_NOW);
      const auto calls =
          reinterpret_cast<decltype(fakeCudaCalls) *>(dlsym(library, "fakeCudaCalls"));
      int before = 0;
      {
        const Device device = Device::open(name);
        Stream stream = device.new_stream();
        const Buffer<float> memory = device.allocate<float>(16);
        const Event event = stream.record_timed();
        stream.begin_capture();
        memory.fill(1.0f, stream);
        const Graph graph = stream.end_capture();
        device.impl()->abandon("a test says so");
        before = calls(nullptr);
        const std::string lost = std::string(name) + " is lost to this process: a test says so";
        const std::function<void()> all[] = {
            [&] { device.memory(); },           [&] { device.allocate<float>(1); },
            [&] { memory.download(); },         [&] { memory.upload(std::vector<float>(16)); },
            [&] { memory.fill(0.0f, stream); }, [&] { memory.copy_from(memory, stream); },
            [&] { device.synchronize(); },      [&] { device.new_stream(); },
            [&] { stream.synchronize(); },      [&] { stream.record(); },
            [&] { stream.wait(event); },        [&] { event.done(); },
            [&] { event.synchronize(); },       [&] { elapsed_ms(event, event); },
            [&] { stream.begin_capture(); },    [&] { graph.launch(stream); },
        };
        for (const auto &one : all)
          try {
            one();
            ADD_FAILURE() << "call " << &one - all << " does something";
          } catch (const DeviceError &error) {
            EXPECT_EQ(error.what(), lost);
          }
      }
      EXPECT_EQ(calls(nullptr), before) << name;
      return testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(child.wait(), 0) << name;
  }
}

} // namespace
