// Every kernel of the registry from a bundle: the code that was built for the call gives the bits
// that the compiler's code gives, and code that assumes nothing of the arguments gives right ones.
// Each kernel on one of the chips in turn, with SECTILE_TEST_ALL=1 on all.
#include "EveryKernel.h"
#include "RandomCase.h"
#include "kernels/bundles/BundleBuilder.h"
#include "kernels/calls/Use.h"
#include "runtime/LaunchAccess.h"
#include <gmock/gmock.h>
#include <sectile/activity.h>

using namespace sectile;
using namespace sectile::test;
using runtime::Bundle;

namespace {

// The bundle that launches take their code from, if any.
class OneBundle : public runtime::CodeSource {
public:
  static OneBundle &get() {
    static const auto one = [] {
      auto source = std::make_shared<OneBundle>();
      addCodeSource(source);
      return source;
    }();
    return *one;
  }
  std::shared_ptr<const Artifact> find(const runtime::CodeRequest &request) const override {
    return bundle ? bundle->find(request) : nullptr;
  }
  std::string whyNone(const runtime::CodeRequest &request) const override {
    return bundle->whyNone(request);
  }
  std::shared_ptr<const Bundle> bundle;
};

/// All options at their defaults, every optional input there.
FilledCall exampleOf(const KernelSpec &kernel) {
  const KernelSpec *const forward = forwardOf(kernel);
  const KernelSpec &called = forward ? *forward : kernel;
  KernelCase test{called.name};
  for (const ArgumentSpec &argument : called.arguments)
    if (argument.optional)
      test.with.push_back(argument.name);
  return forward ? backwardOf(test, kernel.name) : fill(test);
}

class BundledKernel : public testing::TestWithParam<std::string> {
protected:
  const KernelSpec &kernel = findKernel(GetParam());
  const FilledCall filled = exampleOf(kernel);

  const std::vector<std::string> chips{"virtual:sm_80", "virtual:sm_90a", "virtual:gfx942"};

  // The outputs by the code of this bundle alone, or without one by the compiler's.
  std::vector<HostArray> outputs(const Device &device, const std::string &bytes) {
    OneBundle &source = OneBundle::get();
    source.bundle = bytes.empty() ? nullptr : Bundle::of(bytes, "test.sectile");
    std::vector<std::string> other; // what was done that a bundle makes unnecessary
    int found = 0;
    const Listening listening([&](const Activity &activity) {
      if (activity.kind == Activity::Kind::cache && activity.name == "bundle")
        ++found;
      else if (activity.kind != Activity::Kind::load)
        other.push_back(activity.kernel + ": " + activity.name);
    });
    const std::vector<HostArray> result = run(device);
    if (source.bundle) {
      EXPECT_GT(found, 0);
      EXPECT_THAT(other, testing::IsEmpty());
    }
    source.bundle = nullptr;
    return result;
  }

private:
  // As execute(), with code that no launch has loaded before.
  std::vector<HostArray> run(const Device &device) const {
    const Invocation &call = filled.call;
    std::vector<detail::Memory> memory;
    for (std::size_t i = 0; i < call.tensors.size(); ++i) {
      const TensorType &type = call.tensors[i];
      if (!type.present) {
        memory.emplace_back();
        continue;
      }
      HostArray array =
          i < filled.inputs.size() ? filled.inputs[i] : HostArray(type.dtype, type.shape);
      if (i >= filled.inputs.size())
        std::ranges::fill(array.data, std::byte{0xff});
      memory.emplace_back(device, array.data.size()).upload(array.data.data());
    }
    const BoundKernel bound = bindKernel(call, ownChoice(call, device.target()), memory);
    std::vector<std::shared_ptr<const runtime::LoadedKernel>> codes;
    for (const detail::BoundLaunch &launch : bound.launches) {
      if (!launch.grid.x || !launch.grid.y || !launch.grid.z)
        continue;
      codes.push_back(runtime::LaunchAccess::load(launch, device));
      runtime::LaunchAccess::launch(launch, *codes.back(), device.stream());
    }
    device.synchronize();
    std::vector<HostArray> outputs;
    for (std::size_t i = filled.inputs.size(); i < memory.size(); ++i) {
      const TensorType &type = call.tensors[i];
      outputs.push_back(type.present ? HostArray(type.dtype, type.shape) : HostArray());
      if (type.present)
        memory[i].download(outputs.back().data.data());
    }
    return outputs;
  }
};

TEST_P(BundledKernel, HasTheCompilersBitsAndIsRightForAnyArguments) {
  const std::size_t turn = std::hash<std::string>()(GetParam());
  if (!isAmongAThird(turn % 3))
    GTEST_SKIP() << "other kernels have their turn; all run with SECTILE_TEST_ALL=1";
  for (const std::string &name : devicesInTurn(chips, turn / 3)) {
    SCOPED_TRACE(name);
    BundleBuilder builder({name}, {});
    builder.add(filled.call, {});
    builder.finish();
    EXPECT_THAT(builder.gaps(), testing::IsEmpty());
    const std::string all = builder.writer().bytes();
    const Device device = Device::open(name);
    const std::vector<HostArray> compiled = outputs(device, ""), bundled = outputs(device, all);
    ASSERT_EQ(bundled.size(), compiled.size());
    for (std::size_t i = 0; i < compiled.size(); ++i)
      EXPECT_EQ(bundled[i].data, compiled[i].data) << "output " << i;

    runtime::BundleWriter assumesNothing("");
    for (const auto &[key, artifact, bytesOfCode] : Bundle::of(all, "test.sectile")->contents())
      if (std::ranges::all_of(artifact.plan.arguments,
                              [](const ArgumentFacts &facts) { return facts == ArgumentFacts(); }))
        assumesNothing.add(key, artifact);
    for (const Verdict &verdict :
         checkNearby(filled.call, filled.inputs, outputs(device, assumesNothing.bytes())))
      EXPECT_TRUE(verdict.accuracy.ok()) << verdict.output;
  }
}

INSTANTIATE_TEST_SUITE_P(Bundles, BundledKernel, testing::ValuesIn(kernelNames()), caseName);

} // namespace
