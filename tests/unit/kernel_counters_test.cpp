// What the library's kernels cost, by the virtual GPU's counters, and that the synchronisation the
// compiler gives them is what they need: exact numbers, so performance is tested like results are.
#include "VirtualTest.h"
#include "ir/Target.h"
#include "kernels/calls/Emit.h"
#include "kernels/registry/Registry.h"
#include "runtime/LaunchAccess.h"
#include "vgpu/VirtualDevice.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <gmock/gmock.h>
#include <sectile/sectile.h>
#include <sstream>

using namespace sectile;
using vgpu::AccessCounters;
using vgpu::Counters;

namespace {

const bool chosen =
    setenv("SECTILE_CUDA_LIBRARY", "", 1) == 0 && setenv("SECTILE_CACHE_DIR", "", 1) == 0;

struct Counted {
  Counters counters;
  Config config;
};

// Runs a kernel of the library at its default configuration on zeros.
Counted count(const char *target, const char *name, DType dtype, const std::vector<Shape> &inputs,
              const Assignments &options = {}) {
  Device device = Device::open(std::string("virtual:") + target);
  const KernelSpec &kernel = findKernel(name);
  std::map<std::string, GivenTensor> types;
  for (size_t i = 0; i < inputs.size(); ++i)
    types[kernel.arguments[i].name] = {{dtype, inputs[i]}, ""};
  Invocation call = resolve(kernel, types, options);
  std::vector<detail::Memory> memory;
  for (const TensorType &type : call.tensors) {
    HostArray zeros(type.dtype, type.shape);
    memory.emplace_back(device, zeros.data.size());
    memory.back().upload(zeros.data.data());
  }
  Config config = completeConfig(call, device.target(), {});
  auto &machine = static_cast<runtime::VirtualDevice &>(*device.impl());
  machine.countAccesses();
  launchKernel(call, config, memory, device.stream());
  device.synchronize();
  return {machine.lastCounters(), config};
}

void expectCoalesced(const Counters &counters) {
  for (const AccessCounters *access :
       {&counters.globalLoad, &counters.globalStore, &counters.asyncCopy})
    EXPECT_EQ(access->sectors, access->idealSectors) << counters.text();
}

class KernelCounters : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Targets, KernelCounters,
                         testing::Values("sm_80", "sm_90", "gfx942", "gfx1100"),
                         [](const auto &info) { return std::string(info.param); });

TEST_P(KernelCounters, RowsAreReadOnce) {
  Counters softmax = count(GetParam(), "softmax", DType::float32, {{100, 1024}}).counters;
  expectCoalesced(softmax);
  EXPECT_EQ(softmax.globalLoad.bytes, 100 * 1024 * 4u);
  EXPECT_EQ(softmax.globalStore.bytes, 100 * 1024 * 4u);
  Counters norm =
      count(GetParam(), "layer_norm", DType::float16, {{100, 768}, {768}, {768}}).counters;
  expectCoalesced(norm);
  EXPECT_EQ(norm.globalLoad.bytes, 3 * 100 * 768 * 2u);
}

struct Block {
  int m, n;
};

// A thread has every second row of a column. For its 16 elements it reads 33 rows of three columns,
// of which one row lies outside the image.
TEST(StencilCounters, WhatAThreadReadsForSeveralElementsIsReadOnce) {
  Kernel stencil{"stencil", [](Ptr<const float> x, Ptr<float> y, Int h, Int w, const Block &f) {
                   const Int i = expand(program_id(0) * f.m + arange(0, f.m), 1),
                             j = expand(program_id(1) * f.n + arange(0, f.n), 0);
                   auto sums = zeros<float>(f.m, f.n);
                   for (int a = -1; a <= 1; ++a)
                     for (int b = -1; b <= 1; ++b)
                       sums += load(x + ((i + a) * w + (j + b)),
                                    i + a >= 0 && i + a < h && j + b >= 0 && j + b < w);
                   store(y + (i * w + j), sums, i < h && j < w);
                 }};
  const int h = 32, w = 64;
  Device device = Device::open("virtual:sm_90");
  auto x = device.upload(std::vector<float>(h * w, 1.0f)), y = device.allocate<float>(h * w);
  auto &machine = static_cast<runtime::VirtualDevice &>(*device.impl());
  machine.countAccesses();
  stencil.launch(device.stream(), {1, 1}, x, y, h, w, Block{h, w});
  device.synchronize();
  EXPECT_EQ(machine.lastCounters().globalLoad.bytes, 2 * h * (3 * w - 2) * sizeof(float));
}

/// What the copy engine knows of a matrix of 256 × 256, and of boxes of it.
vgpu::TensorMap mapOf(const uint16_t *matrix, int64_t width, int64_t height) {
  vgpu::TensorMap map;
  map.address = reinterpret_cast<uint64_t>(matrix);
  map.type = vgpu::TensorType::U16;
  map.rank = 2;
  map.extents[0] = map.extents[1] = 256;
  map.strides[0] = 256 * sizeof(uint16_t);
  map.box[0] = uint32_t(std::min<int64_t>(width, 64));
  map.box[1] = uint32_t(height);
  map.swizzle = map.box[0] * uint32_t(sizeof(uint16_t));
  return vgpu::TensorMap::encode(map);
}

// Takes each barrier and each wait out of the code of the default matmul, one at a time: every one
// must be missed. On sm_90 the copy engine makes the copies, and stores the sums.
class Synchronization : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Targets, Synchronization,
                         testing::Values("sm_80", "sm_90", "gfx942", "gfx1100"),
                         [](const auto &info) { return std::string(info.param); });

TEST_P(Synchronization, EveryBarrierAndWaitOfMatmulIsNeeded) {
  const KernelSpec &kernel = findKernel("matmul");
  Invocation call = resolveTypical(kernel, "f16", {{"M", 256}, {"N", 256}, {"K", 256}}, {});
  Config config = completeConfig(call, GetParam(), {});
  const std::string code = emitKernel(call, config, GetParam(), "llvm").front().code;

  const Target target = llvm::cantFail(Target::get(GetParam()));
  const unsigned warpSize = target.warpSize;
  const bool hasEngine = target.tensorCopy;
  std::vector<std::string> lines;
  std::istringstream stream(code);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  auto run = [&](size_t without, uint64_t seed) {
    std::string text;
    for (size_t i = 0; i < lines.size(); ++i)
      text += (i == without ? "" : lines[i]) + "\n";
    vgpu::Runner runner(text, warpSize);
    runner.shape.grid[0] = uint32_t(256 / config["m"] * (256 / config["n"]));
    runner.shape.block[0] = uint32_t(config["warps"]) * warpSize;
    runner.shape.sharedBytes = 160 * 1024;
    runner.options.seed = seed;
    runner.options.counters = false;
    auto matrix = [&] { return runner.upload(std::vector<uint16_t>(256 * 256)); };
    auto *a = matrix(), *b = matrix(), *c = matrix();
    // A view is its memory, extents and strides.
    int extent = 256, step = 1;
    if (hasEngine)
      return runner.run(a, extent, extent, extent, step, b, extent, extent, extent, step, c, extent,
                        extent, extent, step, mapOf(a, config["k"], config["m"]),
                        mapOf(b, config["n"], config["k"]), mapOf(c, config["n"], config["m"]));
    return runner.run(a, extent, extent, extent, step, b, extent, extent, extent, step, c, extent,
                      extent, extent, step);
  };
  vgpu::LaunchResult whole = run(lines.size(), 0);
  ASSERT_FALSE(whole.finding) << whole.finding->text();
  const char *const synchronization[] = {
      "call void @llvm.nvvm.barrier.cta", "call void @llvm.nvvm.cp.async.wait",
      "call void @llvm.nvvm.cp.async.bulk.wait", "call void @sectile.nv.mbarrier_wait",
      "call void @llvm.amdgcn.s.barrier"};
  int planted = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool synchronizes =
        std::any_of(std::begin(synchronization), std::end(synchronization),
                    [&](const char *call) { return lines[i].find(call) != std::string::npos; });
    if (!synchronizes)
      continue;
    ++planted;
    for (uint64_t seed : {0, 1, 2}) {
      vgpu::LaunchResult result = run(i, seed);
      ASSERT_TRUE(result.finding) << "seed " << seed << ", without line " << i + 1 << ": "
                                  << lines[i];
      // Without the first barrier threads may come before there are mbarriers.
      const bool isUnmade = hasEngine && result.finding->kind == vgpu::FindingKind::BadOperand &&
                            result.finding->text().ends_with("where no mbarrier is initialised");
      EXPECT_TRUE(isUnmade || result.finding->kind == vgpu::FindingKind::SharedRace ||
                  result.finding->kind == vgpu::FindingKind::MissingWait)
          << result.finding->text();
      EXPECT_THAT(result.finding->file, testing::EndsWith("Matmul.cpp"));
    }
  }
  // Buffers that take turns need one barrier in the loop; copies are waited for besides.
  EXPECT_GE(planted, target.asyncCopy ? 2 : 1);
}

} // namespace
