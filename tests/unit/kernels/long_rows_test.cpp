// Kernels over rows on one very long row: of 2^20 elements and of an odd million, most of them
// with SECTILE_TEST_ALL=1 only.
#include "KernelTest.h"
#include "tests/unit/Processes.h"

using namespace sectile;
using namespace sectile::test;

namespace {

class LongRows : public OnDevice {};
SECTILE_INSTANTIATE_ON(LongRows, "virtual:sm_80,virtual:sm_90a");

constexpr std::int64_t million = std::int64_t(1) << 20;

/// All kernels over rows with the optional inputs that they have in use.
std::vector<KernelCase> rowKernels(std::int64_t rows, std::int64_t length) {
  std::vector<KernelCase> cases;
  auto add = [&](const char *kernel, std::map<std::string, std::int64_t> extents,
                 std::vector<std::string> with = {}) {
    cases.push_back({kernel, std::move(extents), {}, std::move(with), "f16"});
  };
  const std::map<std::string, std::int64_t> row{{"...", rows}, {"N", length}},
      classes{{"...", rows}, {"V", length}};
  for (const char *kernel : {"layer_norm", "layer_norm_backward"})
    add(kernel, row, {"w", "b"});
  for (const char *kernel : {"softmax", "softmax_backward", "log_softmax", "log_softmax_backward"})
    add(kernel, row);
  add("rms_norm", row, {"w", "residual"});
  add("rms_norm_backward", row, {"w", "h", "dh"});
  for (const char *kernel : {"cross_entropy", "cross_entropy_backward"})
    add(kernel, classes);
  // Groups of so many elements: of one channel, and of many.
  for (const std::int64_t channels : {1, 64}) {
    const std::map<std::string, std::int64_t> group{
        {"B", rows}, {"C", channels}, {"...", length / channels}};
    cases.push_back({"group_norm", group, {{"groups", "1"}}, {}, "f16"});
    cases.push_back({"group_norm_backward", group, {}, {}, "f16"});
    cases.back().extents["G"] = 1;
  }
  return cases;
}

} // namespace

TEST_P(LongRows, AreRight) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const KernelCase &test : rowKernels(3, 20001))
    expectRight(device, test);
}

// Sums that lose what is small beside 10^4 have errors of 10^-1 and more here, and the plain
// formula's are no better: the outputs are held to units in the last place of the mean instead.
TEST_P(LongRows, LargeMeans) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : {"layer_norm", "group_norm"})
    for (const std::int64_t length : {std::int64_t(70001), million}) {
      KernelCase test{kernel, {{"...", 1}, {"N", length}}, {}, {}, "f32"};
      if (kernel == std::string("group_norm")) {
        test.extents = {{"B", 1}, {"C", 1}, {"...", length}};
        test.options = {{"groups", "1"}};
      }
      test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
        for (float &x : inputs[0].as<float>())
          x += 1e4f;
      };
      SCOPED_TRACE(test.describe());
      const FilledCall filled = fill(test);
      const std::vector<HostArray> outputs = expectRight(device, filled),
                                   exact = referenceOutputs(filled.call, filled.inputs,
                                                            Arithmetic::exact);
      constexpr double unit = 0x1p-10; // of numbers near 10^4
      const double bounds[] = {3 * unit, 2 * unit, 1e-5};
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        const std::vector<double> values = outputs[i].to_double(), right = exact[i].to_double();
        double error = 0;
        for (std::size_t j = 0; j < values.size(); ++j)
          error = std::max(error, std::abs(values[j] - right[j]));
        EXPECT_LE(error, bounds[i]) << "output " << i;
      }
    }
}

TEST_P(LongRows, FarApart) {
  if (!canSpread(device, Spread::far))
    GTEST_SKIP() << "only virtual GPUs take memory that nobody allocated";
  for (const char *kernel : {"softmax", "softmax_backward", "layer_norm", "layer_norm_backward"})
    expectRightWithStrides(device, {kernel, {{"...", 2}, {"N", 20000}}, {}, {}, "f16"},
                           Spread::far);
}

TEST_P(LongRows, OfAMillionElements) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (std::int64_t length : {million, million + 1}) {
    const bool usual = length == million && device.target() == "sm_90a";
    for (const KernelCase &test : rowKernels(1, length)) {
      const std::string_view name = test.kernel;
      const bool main = name.starts_with("softmax") || name.starts_with("layer_norm") ||
                        name.starts_with("rms_norm");
      if (count(usual && main, 1))
        expectRight(device, test);
    }
  }
}
