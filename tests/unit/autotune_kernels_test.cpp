// Tuning the library's kernels on the virtual GPU.
#include "kernels/Tune.h"
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace sectile;

namespace {

const bool chosen = setenv("SECTILE_CACHE_DIR", "", 1) == 0;

// Small enough for a test of each kernel.
std::map<std::string, std::int64_t> smallExtents(const KernelSpec &kernel) {
  std::map<std::string, std::int64_t> small;
  for (const auto &[axis, extent] : kernel.typical)
    small[axis] = axis == "..." || axis == "B" || axis.starts_with("H") ? 2
                  : axis == "N" && kernel.name != "matmul"              ? 512
                                                                        : 64;
  return small;
}

TEST(AutotuneKernels, TheMatmulHasALargeSpace) {
  const Invocation call = resolveTypical(findKernel("matmul"), "", {}, {});
  EXPECT_GE(candidatesFor(call, "sm_90a").size(), 200u);
}

TEST(AutotuneKernels, CandidatesDifferAndBeginWithTheKernelsOwnChoice) {
  for (const KernelSpec &kernel : kernelRegistry()) {
    const Invocation call = resolveTypical(kernel, "", {}, {});
    const std::vector<Config> configs = candidatesFor(call, "sm_80");
    EXPECT_GT(configs.size(), 5u) << kernel.name;
    EXPECT_EQ(configs.front(), kernel.defaults(call, "sm_80"));
    EXPECT_EQ(std::set<Config>(configs.begin(), configs.end()).size(), configs.size());
  }
}

TEST(AutotuneKernels, EachIsTunedAndFound) {
  const Device device = Device::open("virtual:sm_90");
  AutotuneOptions options;
  options.quiet = true;
  options.strategy = Strategy::random;
  options.candidates = 4;
  for (const KernelSpec &kernel : kernelRegistry()) {
    const Invocation call = resolveTypical(kernel, "", smallExtents(kernel), {});
    EXPECT_EQ(bestKnown(call, device), std::nullopt);
    const TuneReport report = tuneKernel(call, device, options);
    EXPECT_EQ(report.rows[0].config, describe(kernel, kernel.defaults(call, device.target())));
    EXPECT_GE(report.rows.size(), 5u);
    for (const auto &row : report.rows)
      EXPECT_TRUE(row.verdict == TuneVerdict::good || row.verdict == TuneVerdict::does_not_fit)
          << kernel.name << " " << row.config << ": " << row.message;
    const std::optional<Config> best = bestKnown(call, device);
    ASSERT_TRUE(best);
    EXPECT_EQ(describe(kernel, *best), report.rows[report.best].config);
  }
}

} // namespace
