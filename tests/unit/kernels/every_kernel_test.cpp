// The rules of docs/kernels.md for every kernel of the registry, on calls drawn from its
// specification: bounds, poisoned outputs, unchanged inputs, the same bits twice, and gradients
// that are those of the forward kernel. SECTILE_TEST_SEED=N draws one case, with this number.
#include "EveryKernel.h"
#include "RandomCase.h"
#include <iostream>
#include <set>

using namespace sectile;
using namespace sectile::test;

namespace {

std::vector<std::string> kernelNames(bool backward) {
  std::vector<std::string> names;
  for (const KernelSpec &kernel : kernelRegistry())
    if (!backward || forwardOf(kernel))
      names.push_back(kernel.name);
  return names;
}

class DrawnCalls : public testing::TestWithParam<std::string> {
protected:
  const KernelSpec &kernel = findKernel(GetParam());
  // The same as `kernel` where that is no backward kernel.
  const KernelSpec *const forward = forwardOf(kernel);

  // Calls function(seed, case) of the kernel, or of the one that it gives the gradients of.
  template <class Function>
  void forEachCase(unsigned usual, unsigned whole, Function &&function) const {
    std::uint64_t first = 1, last = count(usual, whole);
    if (const char *chosen = std::getenv("SECTILE_TEST_SEED"))
      first = last = std::stoull(chosen);
    for (std::uint64_t seed = first; seed <= last; ++seed) {
      const testing::TestInfo &test = *testing::UnitTest::GetInstance()->current_test_info();
      SCOPED_TRACE("again: SECTILE_TEST_SEED=" + std::to_string(seed) +
                   " build/bin/tests/kernels_every_kernel_test --gtest_filter=" +
                   test.test_suite_name() + "." + test.name());
      const KernelCase drawn = randomCase(forward ? *forward : kernel, seed).test;
      SCOPED_TRACE(drawn.describe());
      if (first == last)
        std::cerr << drawn.describe() << std::endl; // it may end the process
      try {
        function(drawn);
      } catch (const std::exception &error) {
        ADD_FAILURE() << error.what();
      }
    }
  }

  // In every second case the gradients that the backward kernel need not be given.
  std::vector<std::string> leftOut(const KernelCase &test) const {
    std::vector<std::string> names;
    for (const ArgumentSpec &argument : kernel.arguments)
      if (!argument.output && argument.optional && test.seed % 2 == 0 &&
          std::ranges::any_of(forward->arguments, [&](const ArgumentSpec &output) {
            return output.output && argument.name == "d" + output.name;
          }))
        names.push_back(argument.name);
    return names;
  }
};
class Gradients : public DrawnCalls {};

INSTANTIATE_TEST_SUITE_P(Every, DrawnCalls, testing::ValuesIn(kernelNames(false)), caseName);
INSTANTIATE_TEST_SUITE_P(Every, Gradients, testing::ValuesIn(kernelNames(true)), caseName);

} // namespace

TEST_P(DrawnCalls, AreRight) {
  forEachCase(2, 40, [&](const KernelCase &drawn) {
    const FilledCall filled =
        forward ? backwardOf(drawn, kernel.name, leftOut(drawn)) : fill(drawn);
    const std::size_t turn = std::hash<std::string>()(kernel.name) + drawn.seed;
    for (const std::string &name : devicesInTurn({"virtual:sm_80", "virtual:sm_90a"}, turn)) {
      SCOPED_TRACE(name);
      expectRightAnywhere(Device::open(name), filled);
    }
  });
}

TEST_P(Gradients, AreThoseOfDrawnCalls) {
  forEachCase(
      2, 20, [&](const KernelCase &drawn) { expectGradients(drawn, kernel.name, leftOut(drawn)); });
}

TEST_P(Gradients, AreThoseWithEachOption) {
  std::vector<std::string> optional;
  for (const ArgumentSpec &argument : forward->arguments)
    if (argument.optional)
      optional.push_back(argument.name);
  for (const OptionSpec &option : forward->options)
    for (const std::string &value : otherValues(option)) {
      KernelCase test{forward->name, {}, {{option.name, value}}, optional};
      if (!isTaken(test))
        test.with.clear();
      // The references are slow, and need no long axes.
      for (const auto &[axis, extent] : forward->small) {
        test.extents[axis] = std::min<std::int64_t>(extent, 20);
        if (!isTaken(test))
          test.extents.erase(axis);
      }
      expectGradients(test, kernel.name);
    }
}

// The draws reach everything that a kernel has, and seldom what it refuses.
TEST(Draws, ReachEveryPartOfEveryKernel) {
  for (const KernelSpec &kernel : kernelRegistry()) {
    int drawn = 0, refused = 0;
    std::set<std::string> options, inputs, dtypes, axes;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
      const RandomCase random = randomCase(kernel, seed);
      drawn += random.drawn;
      refused += random.refused;
      for (const auto &[name, value] : random.test.options)
        options.insert(name);
      inputs.insert(random.test.with.begin(), random.test.with.end());
      for (const auto &[axis, extent] : random.test.extents)
        axes.insert(axis);
      dtypes.insert(random.test.dtype.substr(0, random.test.dtype.find(',')));
    }
    EXPECT_LE(2 * refused, drawn) << kernel.name;
    EXPECT_EQ(options.size(), kernel.options.size()) << kernel.name;
    EXPECT_EQ(axes.size(), kernel.small.size()) << kernel.name;
    EXPECT_EQ(dtypes.size(), std::max<std::size_t>(kernel.arguments[0].dtypes.size(), 1))
        << kernel.name;
    const auto optional = std::count_if(kernel.arguments.begin(), kernel.arguments.end(),
                                        [](const ArgumentSpec &spec) { return spec.optional; });
    EXPECT_EQ(static_cast<std::ptrdiff_t>(inputs.size()), optional) << kernel.name;
  }
}
