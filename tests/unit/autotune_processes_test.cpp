// Tuning across processes: what one has found out, others know; of two that meet one shape, one
// tunes.
#include "kernels/tuning/Tune.h"
#include "tests/unit/Processes.h"
#include <chrono>
#include <gtest/gtest.h>
#include <iostream>

using namespace sectile;

namespace {

class AutotuneProcesses : public testing::Test {
protected:
  AutotuneProcesses() {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    setenv("SECTILE_CACHE_DIR", folder.c_str(), 1);
    setenv("SECTILE_TUNING_PATH", "", 1);
  }
  ~AutotuneProcesses() override { std::filesystem::remove_all(folder); }

  static Invocation matmul(int64_t m, int64_t n, int64_t k) {
    return resolveTypical(findKernel("matmul"), "", {{"M", m}, {"N", n}, {"K", k}}, {});
  }
  // How many candidates this process measured.
  static int measure(const Invocation &call, size_t candidates) {
    AutotuneOptions options;
    options.quiet = true;
    options.candidates = candidates;
    int measured = 0;
    const auto reports = tuneKernel(call, Device::open("virtual:sm_90a"), options);
    for (const auto &row : reports.front().rows)
      measured += !row.known && row.verdict == TuneVerdict::good;
    return measured;
  }

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("sectile-tuning-" + std::to_string(getpid()));
};

// With SECTILE_TEST_ALL=1 all of the matmul's space, which has to be done in ten minutes on two
// cores.
TEST_F(AutotuneProcesses, ASecondProcessFindsAllShapes) {
  const std::vector<Invocation> calls{matmul(256, 256, 256), matmul(512, 512, 512),
                                      matmul(128, 1024, 256)};
  const unsigned candidates = test::count(2, 1000);
  const auto start = std::chrono::steady_clock::now();
  test::Child first([&] {
    for (const Invocation &call : calls)
      if (measure(call, candidates) < static_cast<int>(test::count(3, 200)))
        return 1;
    return 0;
  });
  ASSERT_EQ(first.wait(), 0);
  std::cout << "tuned in "
            << std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()
            << " s\n";
  test::Child second([&] {
    for (const Invocation &call : calls)
      if (!bestKnown(call, Device::open("virtual:sm_90a")) || measure(call, candidates) != 0)
        return 1;
    return 0;
  });
  EXPECT_EQ(second.wait(), 0);
}

TEST_F(AutotuneProcesses, OneOfTwoTunes) {
  auto body = [] { return measure(matmul(64, 64, 64), 5); };
  test::Child first(body), second(body);
  EXPECT_EQ(first.wait() + second.wait(), 6) << "five candidates and the reference";
}

} // namespace
