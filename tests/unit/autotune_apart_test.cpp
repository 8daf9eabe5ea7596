// Tuning in a user's process, with the candidates in another one: what hangs, faults or dies there
// costs itself, and the device stays this process's.
#include "runtime/DeviceImpl.h"
#include "tests/fake/fake_cuda.h"
#include "tests/unit/Processes.h"
#include <algorithm>
#include <csignal>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
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

struct Block {
  int size = 128, wrong = 0;
};
SECTILE_CONFIG(Block, size, wrong)

// The fake driver adds where a kernel is called so, an element for each thread of the grid.
auto makeAdd() {
  return Kernel{"fake_add", [](Ptr<const float> x, Ptr<const float> y, Ptr<float> z, Int n,
                               const Block &block) {
                  auto i = program_id(0) * block.size + arange(0, block.size);
                  store(z + i, load(x + i, i < n) + load(y + i, i < n), i < n);
                }};
}

int launches() {
  static void *library = dlopen(SECTILE_FAKE_CUDA, RTLD_NOW);
  return reinterpret_cast<decltype(fakeCudaCalls) *>(dlsym(library, "fakeCudaCalls"))(
      "cuLaunchKernel");
}

class AutotuneApart : public testing::Test {
protected:
  AutotuneApart() {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    setenv("SECTILE_CACHE_DIR", folder.c_str(), 1);
    setenv("SECTILE_TUNING_PATH", "", 1);
    setenv("SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA, 1);
    setenv("SECTILE_MEASURE", SECTILE_PROGRAM, 1);
    setenv("SECTILE_AUTOTUNE", "on", 1);
  }
  ~AutotuneApart() override { std::filesystem::remove_all(folder); }

  struct Sum {
    AutotuneOptions options;
    Device device = Device::open("cuda:0");
    Buffer<float> x = device.upload(std::vector<float>(1024, 1)),
                  y = device.upload(std::vector<float>(1024, 2)),
                  z = device.upload(std::vector<float>(1024, 7));
    decltype(makeAdd()) add = makeAdd();
    Space<Block> space = sectile::space(&Block::size, {8, 16, 32, 64, 128});

    Sum() { options.quiet = true; }
    static Grid grid(const Block &block) { return block.wrong ? 1 : 1024 / block.size; }
    TuneReport tune() {
      return Autotuner{add, space, options}.tune(device.stream(), grid, x, y, z, 1024);
    }
    // What was found is launched here: the device works.
    void launch() {
      Autotuner{add, space, options}.launch(device.stream(), grid, x, y, z, 1024);
      device.synchronize();
      EXPECT_FALSE(device.impl()->isLost());
      EXPECT_EQ(z.download(), std::vector<float>(1024, 3));
    }
  };

  static int inProcess(const std::function<void()> &body, const char *variable = "NONE",
                       const char *value = "") {
    test::Child child([&] {
      setenv(variable, value, 1);
      body();
      return testing::Test::HasFailure() ? 1 : 0;
    });
    return child.wait();
  }

  // The fault is each measuring process's, after the reference was run 23 times.
  static void expectItCostsItself(const char *variable, TuneVerdict verdict, const char *message) {
    const int status = inProcess(
        [&] {
          Sum sum;
          if (verdict == TuneVerdict::timed_out)
            sum.options.deadline = 2;
          const TuneReport report = sum.tune();
          EXPECT_EQ(report.problem, "");
          ASSERT_EQ(report.rows.size(), 5u);
          EXPECT_EQ(report.rows[0].verdict, TuneVerdict::good);
          EXPECT_GE(count(report, verdict), 1u) << report.text();
          EXPECT_GE(count(report, TuneVerdict::good) + count(report, TuneVerdict::hopeless), 2u)
              << report.text();
          for (const TuneReport::Row &row : report.rows)
            if (row.verdict == verdict) {
              EXPECT_THAT(row.message, HasSubstr(message));
            }
          EXPECT_EQ(report.rows[report.best].verdict, TuneVerdict::good);
          sum.launch();
          // It is known, and not tried again.
          const TuneReport again = sum.tune();
          EXPECT_EQ(count(again, verdict), count(report, verdict));
          EXPECT_TRUE(std::all_of(again.rows.begin(), again.rows.end(),
                                  [](const TuneReport::Row &row) { return row.known; }));
        },
        variable, "24");
    EXPECT_EQ(status, 0);
  }

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("sectile-apart-" + std::to_string(getpid()));
};

TEST_F(AutotuneApart, AKernelOfThisProcessIsMeasuredInAnother) {
  const int status = inProcess([] {
    Sum sum;
    sum.space = sectile::space(&Block::size, {32, 64, 128}) * sectile::space(&Block::wrong, {0, 1});
    const int before = launches();
    const TuneReport report = sum.tune();
    EXPECT_EQ(launches(), before) << "this process launches nothing";
    EXPECT_EQ(sum.z.download(), std::vector<float>(1024, 7));
    ASSERT_EQ(report.rows.size(), 6u);
    for (const TuneReport::Row &row : report.rows)
      if (row.config.find("wrong=1") != row.config.npos) {
        EXPECT_EQ(row.verdict, TuneVerdict::wrong) << row.config;
        EXPECT_THAT(row.message, HasSubstr("argument 2: 896 of 1024 elements differ"));
      } else {
        EXPECT_TRUE(row.verdict == TuneVerdict::good || row.verdict == TuneVerdict::hopeless)
            << row.message;
        EXPECT_EQ(row.runs, row.verdict == TuneVerdict::good ? 20u : 3u);
        EXPECT_GT(row.microseconds, 0);
        EXPECT_EQ(row.registers, 24u);
      }
    sum.launch();
  });
  EXPECT_EQ(status, 0);
}

// An output that is an input as well, and two arguments in one buffer.
TEST_F(AutotuneApart, MemoryThatArgumentsShareIsSharedThere) {
  const int status = inProcess([] {
    Sum sum;
    const Buffer<float> both = sum.device.upload(std::vector<float>(2049, 5));
    Autotuner tuned{sum.add, sum.space, sum.options};
    const int before = launches();
    const TuneReport report = tuned.tune(sum.device.stream(), Sum::grid, both.slice(1, 1024),
                                         both.slice(1025, 1024), both.slice(1, 1024), 1024);
    EXPECT_EQ(launches(), before);
    EXPECT_EQ(count(report, TuneVerdict::good) + count(report, TuneVerdict::hopeless), 5u)
        << report.text();
    EXPECT_EQ(both.download(), std::vector<float>(2049, 5));
  });
  EXPECT_EQ(status, 0);
}

TEST_F(AutotuneApart, WhatFaultsCostsItself) {
  expectItCostsItself("FAKE_CUDA_LOST_AFTER_LAUNCHES", TuneVerdict::failed, "ILLEGAL_ADDRESS");
}
TEST_F(AutotuneApart, WhatNeverEndsCostsItself) {
  expectItCostsItself("FAKE_CUDA_ENDLESS_LAUNCH", TuneVerdict::timed_out, "did not end within 2 s");
}
TEST_F(AutotuneApart, WhatKillsItsProcessCostsItself) {
  expectItCostsItself("FAKE_CUDA_KILLED_AT_LAUNCH", TuneVerdict::failed,
                      "it ended the process that measured it: Killed");
}

TEST_F(AutotuneApart, WhatStopsItsProcessCostsItself) {
  setenv("SECTILE_MEASURE_PATIENCE", "1", 1);
  expectItCostsItself("FAKE_CUDA_STOPPED_AT_LAUNCH", TuneVerdict::timed_out,
                      "it and the device did not answer within");
  unsetenv("SECTILE_MEASURE_PATIENCE");
}

// What a process writes to its standard error.
std::string errorsOf(const std::function<void()> &body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

TEST_F(AutotuneApart, WithoutAProgramThisProcessMeasuresAndSaysSo) {
  for (const char *program : {"", "/does/not/exist", "/bin/true"}) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    const int status = inProcess(
        [&] {
          Sum sum;
          sum.options.quiet = false;
          const int before = launches();
          const std::string said = errorsOf([&] { sum.tune(); });
          EXPECT_GT(launches(), before + 23);
          EXPECT_THAT(said, HasSubstr("sectile: kernel 'fake_add' is measured in this process: "));
          EXPECT_THAT(said, HasSubstr(*program == 0 ? "SECTILE_MEASURE is empty" : program));
          sum.launch();
        },
        "SECTILE_MEASURE", program);
    EXPECT_EQ(status, 0) << program;
  }
}

TEST_F(AutotuneApart, AProgramThatNeverAnswersIsEnded) {
  const std::filesystem::path program = folder.string() + "-asleep", who = folder.string() + "-id";
  std::ofstream(program) << "#!/bin/sh\necho $$ > " << who.string() << "\nexec sleep 1000\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  setenv("SECTILE_MEASURE_PATIENCE", "1", 1);
  const int status = inProcess(
      [&] {
        Sum sum;
        sum.options.quiet = false;
        const std::string said = errorsOf([&] { sum.tune(); });
        EXPECT_THAT(said, HasSubstr("is measured in this process: "));
        EXPECT_THAT(said, HasSubstr("did not answer within 1 s"));
        sum.launch();
      },
      "SECTILE_MEASURE", program.c_str());
  unsetenv("SECTILE_MEASURE_PATIENCE");
  EXPECT_EQ(status, 0);
  int id = 0;
  std::ifstream(who) >> id;
  ASSERT_GT(id, 0);
  EXPECT_EQ(kill(id, 0), -1) << "it still runs";
  std::filesystem::remove(program);
  std::filesystem::remove(who);
}

TEST_F(AutotuneApart, MemoryOfUnknownSizeKeepsItHere) {
  const int status = inProcess([] {
    Sum sum;
    sum.options.quiet = false;
    Autotuner tuned{sum.add, sum.space, sum.options};
    const int before = launches();
    const std::string said = errorsOf(
        [&] { tuned.tune(sum.device.stream(), Sum::grid, sum.x.data(), sum.y, sum.z, 1024); });
    EXPECT_GT(launches(), before);
    EXPECT_THAT(said, HasSubstr("argument 0 of kernel 'fake_add' is memory of unknown size"));
  });
  EXPECT_EQ(status, 0);
}

// With `apart` off a tuning is this process's.
TEST_F(AutotuneApart, ItCanBeSwitchedOff) {
  const int status = inProcess([] {
    Sum sum;
    sum.options.apart = false;
    const int before = launches();
    sum.tune();
    EXPECT_GT(launches(), before);
  });
  EXPECT_EQ(status, 0);
}

} // namespace
