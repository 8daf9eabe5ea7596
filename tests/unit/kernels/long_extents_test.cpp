// No library kernel refuses an extent that memory holds: the grids that all of them would be
// launched with, axis by axis, and some launches beyond what a device takes along y and z.
#include "../Processes.h"
#include "EveryKernel.h"
#include "KernelTest.h"
#include "kernels/calls/Use.h"
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::test;

namespace {

constexpr std::int64_t longExtent = 70'001;
constexpr double memoryBytes = 288e9;

double bytesOf(const Invocation &call) {
  double bytes = 0;
  for (const TensorType &tensor : call.tensors)
    if (tensor.present)
      bytes += static_cast<double>(elementCount(tensor.shape)) *
               static_cast<double>(size_of(tensor.dtype));
  return bytes;
}

/// Whether a launch finds a way: the grid as it is, or with its first axis exchanged for a long
/// one. Two long axes are more than 2^32 programs, which no kernel has of arrays that are anything
/// like those in use.
bool isLaunched(const Grid &grid) {
  if (static_cast<double>(grid.x) * grid.y * grid.z > 0x1p32)
    return true;
  const DeviceLimits limits;
  const auto fits = [&](unsigned x, unsigned y, unsigned z) {
    return x <= limits.max_grid[0] && y <= limits.max_grid[1] && z <= limits.max_grid[2];
  };
  return fits(grid.x, grid.y, grid.z) || fits(grid.y, grid.x, grid.z) ||
         fits(grid.z, grid.y, grid.x);
}

class LongExtents : public testing::TestWithParam<std::string> {};

} // namespace

TEST_P(LongExtents, HaveGridsThatDevicesTake) {
  const KernelSpec &kernel = findKernel(GetParam());
  unsigned taken = 0;
  const auto check = [&](const std::map<std::string, std::int64_t> &changed) {
    auto extents = kernel.small;
    std::string what;
    for (const auto &[axis, extent] : changed)
      extents[axis] = extent, what += " " + axis + "=" + std::to_string(extent);
    std::optional<Invocation> call;
    try {
      call = resolveTypical(kernel, "", extents, {});
    } catch (const InputError &) {
      return; // an extent that has to be another
    }
    if (bytesOf(*call) > memoryBytes)
      return;
    for (const char *target : {"sm_90a", "gfx942"}) {
      for (const detail::BoundLaunch &launch :
           bindKernel(*call, completeConfig(*call, target, {})).launches)
        EXPECT_TRUE(isLaunched(launch.grid))
            << kernel.name << what << " on " << target << ": " << launch.kernel->name() << " "
            << launch.grid.x << " x " << launch.grid.y << " x " << launch.grid.z;
      ++taken;
    }
  };
  for (const auto &[axis, extent] : kernel.small) {
    check({{axis, longExtent}});
    check({{axis, 3'000'000}});
    for (const auto &[other, unused] : kernel.small)
      if (axis < other) {
        auto one = kernel.small;
        for (auto &[name, size] : one)
          size = 1;
        one[axis] = one[other] = longExtent;
        check(one);
        check({{axis, longExtent}, {other, longExtent}});
      }
  }
  EXPECT_GT(taken, 0u) << "no extent of " << kernel.name << " can be long";
}
INSTANTIATE_TEST_SUITE_P(Kernels, LongExtents, testing::ValuesIn(kernelNames()),
                         [](const auto &info) { return info.param; });

namespace {

std::vector<KernelCase> longCases() {
  std::vector<KernelCase> cases{
      {"add_positions", {{"B", longExtent}, {"S", 1}, {"H", 2}, {"P", 1}}},
      {"sinusoidal", {{"B", longExtent}, {"S", 1}, {"H", 2}}},
      {"mean_pool_backward", {{"B", longExtent}, {"T", 1}, {"D", 2}}},
      {"chunk_mean_pool", {{"B", longExtent}, {"T", 1}, {"H", 1}, {"D", 2}}},
  };
  // Minutes on the virtual GPU.
  const std::vector<KernelCase> slow{
      {"sort", {{"...", longExtent}, {"N", 2}}},
      {"argsort", {{"...", longExtent}, {"N", 2}}},
      {"topk", {{"...", longExtent}, {"N", 3}}, {{"k", "1"}}},
      {"linear_recurrence", {{"B", longExtent}, {"H", 1}, {"T", 1}, {"Dk", 1}, {"Dv", 1}}},
      {"attention", {{"B", longExtent}, {"Hq", 1}, {"Hkv", 1}, {"Sq", 1}, {"Sk", 1}, {"D", 16}}},
  };
  if (count(0, 1))
    cases.insert(cases.end(), slow.begin(), slow.end());
  return cases;
}

class LongRuns : public testing::TestWithParam<std::size_t> {};

} // namespace

TEST_P(LongRuns, AreRight) {
  const KernelCase test = longCases()[GetParam()];
  // Other targets in turn: each run is seventy thousand programs.
  static constexpr const char *targets[] = {"sm_80", "gfx942", "sm_90a"};
  expectRight(Device::open("virtual:" + std::string(targets[GetParam() % 3])), test);
}
INSTANTIATE_TEST_SUITE_P(Kernels, LongRuns, testing::Range(std::size_t(0), longCases().size()),
                         [](const auto &info) { return longCases()[info.param].kernel; });
