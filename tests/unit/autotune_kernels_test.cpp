// Tuning the library's kernels on the virtual GPU.
#include "Candidates.h"
#include "kernels/tuning/Tune.h"
#include "tests/unit/Processes.h"
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <sectile/error.h>
#include <set>

using namespace sectile;

namespace {

const bool chosen = setenv("SECTILE_CACHE_DIR", "", 1) == 0;

TEST(AutotuneKernels, TheMatmulHasALargeSpace) {
  const Invocation call = resolveTypical(findKernel("matmul"), "", {}, {});
  EXPECT_GE(candidatesFor(call, call.kernel->spaces.front(), "sm_90a").size(), 200u);
}

TEST(AutotuneKernels, CandidatesDifferAndBeginWithTheKernelsOwnChoice) {
  for (const KernelSpec &kernel : kernelRegistry()) {
    const Invocation call = resolveTypical(kernel, "", {}, {});
    EXPECT_FALSE(kernel.spaces.empty()) << kernel.name;
    for (const SearchSpace &space : kernel.spaces) {
      const std::vector<Config> configs = candidatesFor(call, space, "sm_80");
      EXPECT_GT(configs.size(), 3u) << kernel.name;
      EXPECT_EQ(configs.front(), kernel.defaults(call, "sm_80"));
      EXPECT_EQ(std::set<Config>(configs.begin(), configs.end()).size(), configs.size());
    }
  }
}

// Of calls with launches beside the one that is tuned, as copies of operands before it.
std::vector<Invocation> callsOf(const KernelSpec &kernel) {
  std::vector<Invocation> calls{
      resolveTypical(kernel, "", {}, test::allLaunches(kernel)),
      resolveTypical(kernel, "", kernel.small, test::allLaunches(kernel))};
  const auto add = [&](std::string_view dtype, std::map<std::string, std::int64_t> extents,
                       const Assignments &options = {}) {
    calls.push_back(resolveTypical(kernel, dtype, std::move(extents), options));
  };
  if (kernel.name == "scaled_matmul")
    add("", {}, {{"trans_b", "false"}});
  if (kernel.name == "matmul" || kernel.name == "batched_matmul")
    add("f16", {{"M", 512}, {"N", 4096}, {"K", 1023}});
  if (kernel.name == "moe_permute")
    add("", {{"T", 16384}, {"k", 8}}, {{"count", "128"}});
  if (kernel.name == "quantize")
    add("", {{"M", 8192}, {"K", 7168}}, {{"granularity", "tensor"}});
  if (kernel.name == "attention" || kernel.name == "rope_attention")
    add("f16", {{"Hkv", 2}, {"Sq", 4}, {"Sk", 8192}, {"D", 128}});
  if (kernel.name == "attention_varlen")
    for (const std::int64_t queries : {16384, 32})
      add("f16", {{"Tq", queries}, {"Tk", 65536}, {"D", 128}, {"Dv", 128}});
  return calls;
}

TEST(AutotuneKernels, TheTunedLaunchIsTheOneThatConfigurationsChange) {
  for (const KernelSpec &kernel : kernelRegistry())
    for (const Invocation &call : callsOf(kernel)) {
      bool finds = false;
      for (const SearchSpace &space : kernel.spaces) {
        SCOPED_TRACE(kernel.name + " " + space.part);
        const std::vector<Config> configs = candidatesFor(call, space, "sm_90a");
        const auto describeLaunch = [&](const Config &config) -> std::optional<std::string> {
          const BoundKernel bound = bindKernel(call, config);
          const detail::BoundLaunch *launch = bound.find(space.part);
          if (!launch)
            return {};
          return launch->describeConfig(launch->config.get()) + std::to_string(launch->grid.x);
        };
        const std::optional<std::string> own = describeLaunch(configs.front());
        if (!own)
          continue;
        finds = true;
        EXPECT_TRUE(std::any_of(configs.begin() + 1, configs.end(), [&](const Config &config) {
          return describeLaunch(config) != own;
        }));
      }
      EXPECT_TRUE(finds) << kernel.name << " has no launch to tune among "
                         << bindKernel(call, kernel.defaults(call, "sm_90a")).launches.size();
    }
}

TEST(AutotuneKernels, EachIsTunedAndFound) {
  const Device device = Device::open("virtual:sm_90a");
  AutotuneOptions options;
  options.quiet = true;
  options.strategy = Strategy::random;
  options.candidates = test::count(1, 2);
  std::size_t place = 0;
  for (const KernelSpec &kernel : kernelRegistry()) {
    if (!test::isAmongAThird(place++))
      continue;
    SCOPED_TRACE(kernel.name);
    const Invocation call = resolveTypical(kernel, "", kernel.small, test::allLaunches(kernel));
    EXPECT_EQ(bestKnown(call, device), std::nullopt);
    const std::vector<TuneReport> reports = tuneKernel(call, device, options);
    ASSERT_EQ(reports.size(), kernel.spaces.size());
    const std::optional<Config> best = bestKnown(call, device);
    ASSERT_TRUE(best);
    for (std::size_t i = 0; i < reports.size(); ++i) {
      const TuneReport &report = reports[i];
      EXPECT_EQ(report.rows[0].config, describe(kernel, kernel.defaults(call, device.target())));
      EXPECT_GE(report.rows.size(), 1 + options.candidates);
      for (const auto &row : report.rows)
        EXPECT_TRUE(row.verdict == TuneVerdict::good || row.verdict == TuneVerdict::does_not_fit)
            << kernel.name << " " << row.config << ": " << row.message;
      Config chosen = kernel.defaults(call, device.target());
      for (const auto &[field, values] : kernel.spaces[i].axes)
        chosen[field] = best->at(field);
      EXPECT_EQ(describe(kernel, chosen), report.rows[report.best].config);
    }
  }
}

// What is measured beside the reference are the candidates that the kernel's model has as fastest.
TEST(AutotuneKernels, HalvingAsksTheKernelsModel) {
  KernelSpec spec = findKernel("matmul");
  spec.spaces[0].axes = {
      {"m", {64, 128}}, {"n", {32, 64, 128}}, {"k", {32, 64}}, {"warps", {4}}, {"stages", {2, 3}}};
  Invocation call = resolveTypical(spec, "f16", {{"M", 200}, {"N", 130}, {"K", 96}}, {});
  call.kernel = &spec;
  const Device device = Device::open("virtual:sm_90a");
  AutotuneOptions options;
  options.quiet = true;
  options.strategy = Strategy::halving;
  options.candidates = 4;
  const TuneReport report = tuneKernel(call, device, options).at(0);
  std::set<std::string> seen;
  for (const auto &row : report.rows)
    seen.insert(row.config);
  double slowest = 0, skipped = std::numeric_limits<double>::infinity();
  std::size_t measured = 0;
  for (const Config &config : candidatesFor(call, spec.spaces[0], device.target())) {
    const double predicted = spec.predict(call, device.target(), config);
    EXPECT_GT(predicted, 0);
    if (config == spec.defaults(call, device.target()))
      continue;
    if (seen.contains(describe(spec, config)))
      slowest = std::max(slowest, predicted), ++measured;
    else
      skipped = std::min(skipped, predicted);
  }
  EXPECT_EQ(measured, 4u);
  EXPECT_LE(slowest, skipped);
}

TEST(AutotuneKernels, TransposedProductsAreOtherProblems) {
  KernelSpec kernel = findKernel("matmul");
  kernel.name = "products"; // What other tests measured of matmul is not known of it.
  const Device device = Device::open("virtual:sm_90a");
  AutotuneOptions options;
  options.quiet = true;
  options.strategy = Strategy::random;
  options.candidates = 1;
  for (const Assignments &transposed :
       {Assignments{}, {{"trans_a", "true"}}, {{"trans_b", "true"}}}) {
    const Invocation call =
        resolveTypical(kernel, "f16", {{"M", 48}, {"N", 48}, {"K", 48}}, transposed);
    EXPECT_EQ(bestKnown(call, device), std::nullopt);
    for (const TuneReport &report : tuneKernel(call, device, options))
      for (const auto &row : report.rows)
        EXPECT_FALSE(row.known) << row.config;
    EXPECT_TRUE(bestKnown(call, device));
  }
}

// With few channels the gradient of the image is a launch of another shape.
TEST(AutotuneKernels, ConvolutionsOfFewChannelsAreTuned) {
  const KernelSpec &kernel = findKernel("conv2d_backward");
  const Invocation call = resolveTypical(
      kernel, "f16", {{"N", 1}, {"C", 3}, {"H", 6}, {"W", 9}, {"K", 4}, {"R", 3}, {"S", 3}},
      {{"stride_w", "2"}});
  const Device device = Device::open("virtual:sm_90a");
  EXPECT_EQ(bestKnown(call, device), std::nullopt);
  AutotuneOptions options;
  options.quiet = true;
  options.strategy = Strategy::random;
  options.candidates = 1;
  EXPECT_EQ(tuneKernel(call, device, options).size(), kernel.spaces.size());
  EXPECT_TRUE(bestKnown(call, device));
}

// Fields that a depthwise launch does not use keep one value, and tiles are such that its lanes
// have work; products with the same channels have none of its values.
TEST(AutotuneKernels, DepthwiseConvolutionsTryTheirOwnConfigurations) {
  for (const char *name : {"conv2d", "conv2d_backward"})
    for (const char *layout : {"nchw", "nhwc"})
      for (const char *groups : {"1", "64"}) {
        const KernelSpec &kernel = findKernel(name);
        const Invocation call =
            resolveTypical(kernel, "f16", {}, {{"layout", layout}, {"groups", groups}});
        const bool depthwise = groups == std::string("64");
        const Config defaults = kernel.defaults(call, "sm_90a");
        for (const SearchSpace &space : kernel.spaces) {
          const std::string prefix = space.part == "conv2d_wgrad" ? "wgrad_" : "";
          const auto tries = [&](const char *field, std::int64_t value) {
            Config config = defaults;
            config[prefix + field] = value;
            return space.where(call, "sm_90a", config);
          };
          EXPECT_TRUE(space.where(call, "sm_90a", defaults)) << space.part;
          EXPECT_EQ(tries("stages", 2), !depthwise) << space.part;
          EXPECT_EQ(tries("k", 16), !depthwise) << space.part;
          EXPECT_FALSE(tries("m", 1)) << space.part;
        }
      }
}

// Short sequences are one step of another launch than the one whose blocks are tuned.
TEST(AutotuneKernels, ACallWithoutTheTunedLaunchIsRefused) {
  const KernelSpec &kernel = findKernel("linear_recurrence");
  std::map<std::string, std::int64_t> extents = kernel.small;
  extents["T"] = 1;
  const Invocation call = resolveTypical(kernel, "", extents, {});
  const Device device = Device::open("virtual:sm_90a");
  EXPECT_NO_THROW(bestKnown(call, device));
  AutotuneOptions options;
  options.quiet = true;
  try {
    tuneKernel(call, device, options);
    FAIL() << "it was tuned";
  } catch (const InputError &error) {
    EXPECT_STREQ(error.what(), "linear_recurrence: with these extents it does without what is "
                               "tuned, there is nothing to tune");
  }
}

TEST(AutotuneKernels, ASpaceThatDoesNotSayWhichOfSeveralLaunchesIsRefused) {
  KernelSpec kernel = findKernel("linear_recurrence");
  kernel.spaces.front().part = "";
  AutotuneOptions options;
  options.quiet = true;
  EXPECT_THAT(
      [&] {
        tuneKernel(resolveTypical(kernel, "", kernel.small, {}), Device::open("virtual:sm_90a"),
                   options);
      },
      testing::ThrowsMessage<InputError>(testing::StrEq(
          "linear_recurrence: this call has 2 launches; its search space has to name the "
          "one that is tuned, as 'part'")));
}

} // namespace
