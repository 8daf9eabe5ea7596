// The static estimate against what the compiler says: shared memory, what is dropped for it and for
// registers, and the counters that are foretold.
#include "autotune/CostModel.h"
#include "autotune/Predict.h"
#include "codegen/nvidia/Ptxas.h"
#include "tests/unit/Candidates.h"
#include "tests/unit/LoopPlans.h"
#include "tests/unit/Processes.h"
#include "vgpu/VirtualDevice.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

using namespace sectile;
using namespace sectile::test;
using testing::AnyOf, testing::ContainsRegex, testing::HasSubstr;

namespace {

detail::BoundLaunch launchOf(const Invocation &call, const Config &config,
                             std::vector<detail::Memory> memory = {}) {
  return bindKernel(call, config, memory).part("");
}

// Each search space on some chip, in a few configurations; with SECTILE_TEST_ALL=1 on all of them.
TEST(Estimate, SharedMemoryIsTheCompilersFigure) {
  const char *names[] = {"sm_80", "sm_90a", "sm_120", "gfx942", "gfx1100"};
  const unsigned targets = count(1, std::size(names));
  unsigned compared = 0, turn = 0;
  auto compare = [&](const Candidate &candidate, const Target &target) {
    const ResourceEstimate estimate = estimateOf(candidate.launch, target);
    runtime::CodeAccess::trace(candidate.launch, target, [&](mlir::ModuleOp module) {
      SCOPED_TRACE(target.name + " " + candidate.what);
      llvm::Expected<Artifact> artifact = compile(
          module, target, runtime::LaunchAccess::options(candidate.launch), CodeFor::VirtualDevice);
      if (!artifact) {
        EXPECT_FALSE(estimate.excess.empty());
        return llvm::consumeError(artifact.takeError());
      }
      const double real = artifact->plan.sharedBytes + artifact->resources.staticSharedBytes;
      EXPECT_NEAR(estimate.sharedBytes, real, 0.05 * real);
      EXPECT_EQ(estimate.threads, artifact->plan.threads);
      EXPECT_THAT(estimate.excess, AnyOf("", ContainsRegex("(needs about|holds tiles in) [0-9]+ "
                                                           "registers of each thread")));
      ++compared;
    });
  };
  std::size_t place = 0;
  for (const KernelSpec &kernel : kernelRegistry()) {
    if (!isAmongAThird(place++))
      continue;
    const Invocation call = typicalCall(kernel, "f16");
    for (const SearchSpace &space : kernel.spaces)
      for (unsigned i = 0; i < targets; ++i) {
        const Target target = llvm::cantFail(Target::get(names[++turn % std::size(names)]));
        for (const Candidate &candidate : someOf(call, space, target.name, count(1, 2), turn))
          compare(candidate, target);
      }
    const Target target = llvm::cantFail(Target::get("sm_90a"));
    for (const Candidate &candidate : othersOf(call, target.name))
      compare(candidate, target);
  }
  EXPECT_GT(compared, count(30, 100));
}

// What is dropped for its registers spills.
TEST(Estimate, DropsWhatCannotFit) {
  SECTILE_NEEDS_LOOP_PLANS();
  const Target target = llvm::cantFail(Target::get("sm_90a"));
  const KernelSpec &matmul = findKernel("matmul");
  const Invocation call = resolveTypical(matmul, "f16", {}, {});
  Config config = matmul.defaults(call, target.name);
  config["m"] = config["n"] = 256;
  config["warps"] = 4;
  config["stages"] = 2;
  const ResourceEstimate wide = estimateOf(launchOf(call, config), target);
  EXPECT_EQ(wide.excess, "kernel 'matmul' holds tiles in 512 registers of each thread, sm_90a has "
                         "255: raise the warps or lower the tile's extents");
  if (findPtxas())
    runtime::CodeAccess::trace(launchOf(call, config), target, [&](mlir::ModuleOp module) {
      const CompileOptions options{.warps = 4, .stages = 2};
      const std::string ptx = llvm::cantFail(compileTo(module, target, options, Form::Ptx));
      EXPECT_GT(llvm::cantFail(runPtxas(ptx, target)).spillStoreBytes, 0u);
    });

  config["m"] = config["n"] = 128;
  config["k"] = 128;
  config["stages"] = 5;
  config["persistent"] = 0; // whose ring is as deep as there is room for
  EXPECT_THAT(estimateOf(launchOf(call, config), target).excess,
              HasSubstr("needs 320 KiB of shared memory, sm_90a has 227 KiB"));
  config["warps"] = 64;
  EXPECT_EQ(estimateOf(launchOf(call, config), target).excess, "2048 threads; sm_90a has 1024");
}

// Ranks of numbers, the smallest first.
std::vector<double> ranks(const std::vector<double> &numbers) {
  std::vector<size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(numbers[a], a) < std::pair(numbers[b], b);
  });
  std::vector<double> result(numbers.size());
  for (size_t i = 0; i < order.size(); ++i)
    result[order[i]] = static_cast<double>(i);
  return result;
}

double rankCorrelation(const std::vector<double> &a, const std::vector<double> &b) {
  const std::vector<double> x = ranks(a), y = ranks(b);
  double distance = 0;
  for (size_t i = 0; i < x.size(); ++i)
    distance += (x[i] - y[i]) * (x[i] - y[i]);
  const double n = static_cast<double>(x.size());
  return 1 - 6 * distance / (n * (n * n - 1));
}

// What the IR foretells against what the virtual GPU counts.
TEST(Estimate, CountersAreForeseen) {
  const Device device = Device::open("virtual:sm_90a");
  const Target target = llvm::cantFail(Target::get(device.target()));
  for (const char *name : {"matmul", "attention"}) {
    const KernelSpec &kernel = findKernel(name);
    const Invocation call = resolveTypical(
        kernel, "",
        kernel.name == "matmul" ? std::map<std::string, int64_t>{{"M", 256}, {"N", 256}, {"K", 128}}
                                : std::map<std::string, int64_t>{{"B", 1},
                                                                 {"Hq", 2},
                                                                 {"Hkv", 2},
                                                                 {"Sq", 128},
                                                                 {"Sk", 128}},
        {});
    std::vector<detail::Memory> memory;
    for (const TensorType &tensor : call.tensors) {
      const HostArray zeros(tensor.dtype, tensor.shape);
      memory.emplace_back(device, zeros.data.size()).upload(zeros.data.data());
    }
    std::vector<Config> configs = candidatesFor(call, call.kernel->spaces.front(), target.name);
    // Blocks that hang over an edge are foreseen as whole ones.
    std::erase_if(configs, [&](const Config &config) {
      return kernel.name == "matmul" && call.extent("N") % config.at("n") != 0;
    });
    std::vector<double> foreseen, counted;
    constexpr size_t some = 16;
    for (size_t i = 0; i < some; ++i) {
      const detail::BoundLaunch launch =
          launchOf(call, configs[i * (configs.size() - 1) / (some - 1)], memory);
      autotune::LaunchProfile profile;
      bool fits = false;
      runtime::CodeAccess::trace(launch, target, [&](mlir::ModuleOp module) {
        const CompileOptions options = runtime::LaunchAccess::options(launch);
        const auto estimate = llvm::cantFail(estimateResources(module, target, options));
        fits = estimate.excess.empty();
        if (fits)
          profile = {autotune::predictCounters(module, launch, target),
                     estimate.threads,
                     estimate.sharedBytes,
                     estimate.registers,
                     options.stages,
                     0};
      });
      if (!fits)
        continue;
      const vgpu::Counters predicted = profile.counters;
      auto time = [&] {
        return autotune::estimateMicroseconds(machineModel(target), target, profile);
      };
      foreseen.push_back(time());
      runtime::VirtualDevice::WatchLaunches watch(
          [&](const runtime::LoadedKernel &, const vgpu::Counters &counters) {
            profile.counters = counters;
          });
      runtime::LaunchAccess::launch(launch, device.stream());
      counted.push_back(time());
      EXPECT_EQ(predicted.mma, profile.counters.mma);
      EXPECT_EQ(predicted.asyncCopy.sectors, profile.counters.asyncCopy.sectors);
      EXPECT_EQ(predicted.globalStore.sectors, profile.counters.globalStore.sectors);
    }
    EXPECT_GT(foreseen.size(), 10u);
    EXPECT_GT(rankCorrelation(foreseen, counted), 0.7) << name;
  }
}

} // namespace
