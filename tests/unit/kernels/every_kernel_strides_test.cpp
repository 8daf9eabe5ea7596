// Every kernel of the registry on arguments with strides: with gaps between rows, with no dense
// axis, and with rows more than 2^31 elements apart, where memory between them is reserved, never
// touched: the host has none for it.
#include "EveryKernel.h"
#include "RandomCase.h"
#include <gmock/gmock.h>

using namespace sectile;
using namespace sectile::test;

namespace {

/// All options at their defaults, every optional input there.
FilledCall exampleOf(const KernelSpec &kernel) {
  const KernelSpec *const backwardOfOther = forwardOf(kernel);
  const KernelSpec &called = backwardOfOther ? *backwardOfOther : kernel;
  KernelCase test{called.name};
  for (const ArgumentSpec &argument : called.arguments)
    if (argument.optional)
      test.with.push_back(argument.name);
  FilledCall filled = backwardOfOther ? backwardOf(test, kernel.name) : fill(test);
  // Kernels of single elements take axes that do not lie evenly.
  const bool anyShape = std::all_of(kernel.arguments.begin(), kernel.arguments.end(),
                                    [](const ArgumentSpec &argument) {
                                      return argument.axes == std::vector<std::string>{"..."};
                                    });
  if (anyShape) {
    std::map<std::string, GivenTensor> types;
    for (std::size_t i = 0; i < filled.inputs.size(); ++i) {
      HostArray &input = filled.inputs[i];
      input.shape = {4, input.count() / 20, 5};
      types[kernel.arguments[i].name] = {{input.dtype, input.shape}, ""};
    }
    filled.call = resolve(kernel, types, {});
  }
  return filled;
}

class EveryKernel : public testing::TestWithParam<std::string> {
protected:
  const KernelSpec &kernel = findKernel(GetParam());

  void expectRightAs(Spread spread, const std::vector<std::string> &all) {
    const std::size_t turn = std::hash<std::string>()(GetParam());
    if (!isAmongAThird(turn % 3 + static_cast<std::size_t>(spread)))
      GTEST_SKIP() << "another way has its turn; all run with SECTILE_TEST_ALL=1";
    const FilledCall filled = exampleOf(kernel);
    for (const std::string &name : devicesInTurn(all, turn / 3)) {
      const Device device = Device::open(name);
      SCOPED_TRACE(name);
      if (canSpread(device, spread))
        expectRightWithStrides(device, filled, spread);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Strides, EveryKernel, testing::ValuesIn(kernelNames()), caseName);

TEST_P(EveryKernel, WithGapsBetweenRows) { expectRightAs(Spread::rows, {"virtual:sm_90a"}); }
TEST_P(EveryKernel, WithNoDenseAxis) {
  expectRightAs(Spread::everywhere, {"virtual:sm_80", "virtual:sm_90a"});
}
TEST_P(EveryKernel, WithRowsFarApart) {
  expectRightAs(Spread::far, {"virtual:sm_90a", "virtual:gfx942"});
}

} // namespace
