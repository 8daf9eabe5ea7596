// A NaN, and an infinity, in the first input of every kernel of the registry: they reach what the
// float64 reference says, and nothing else but what the kernel's page admits.
#include "RandomCase.h"
#include <cmath>

using namespace sectile;
using namespace sectile::test;

namespace {

/// Outputs that may be NaN or infinite, but not wrong, where the reference is not, or the other of
/// the two.
std::vector<std::string> admitted(const std::string &kernel, bool nan) {
  // Steps of a chunk, and a query and the keys of its block that are hidden from it, meet in
  // products of matrices, where 0 * NaN is NaN.
  if (kernel == "linear_recurrence_backward")
    return {"dk", "dv"};
  if (kernel == "delta_rule_backward" || kernel == "kda_backward")
    return {"dk", "dv", "dbeta"};
  if (kernel == "rwkv7_backward")
    return {"dk", "dv", "da", "db"};
  if (kernel == "stick_breaking_attention_backward")
    return {"dk"};
  if (nan)
    return {};
  // Infinities of both signs are added in another order.
  if (kernel == "linear_recurrence" || kernel == "delta_rule" || kernel == "kda" ||
      kernel == "rwkv7")
    return {"o"};
  // A key is hidden where its score is -inf.
  if (kernel == "rerope_attention_backward")
    return {"dk1", "dv"};
  if (kernel == "attention_backward" || kernel == "attention_varlen_backward" ||
      kernel == "ring_attention_backward" || kernel == "rope_attention_backward" ||
      kernel == "exposb_attention_backward" || kernel == "block_sparse_attention_backward")
    return {"dk", "dv"};
  return {};
}

class EveryKernel : public testing::TestWithParam<std::string> {
protected:
  const KernelSpec &kernel = findKernel(GetParam());

  /// The gradients' kernels get what the forward ones make of it.
  FilledCall withOne(double special) const {
    const KernelSpec *const forward = forwardOf(kernel);
    KernelCase test{(forward ? *forward : kernel).name};
    test.prepare = [&](const Invocation &, std::vector<HostArray> &inputs) {
      for (HostArray &input : inputs)
        if (!input.data.empty() && is_floating(input.dtype)) {
          std::vector<double> values = input.to_double();
          values[values.size() / 3] = special;
          input.assign(values);
          return;
        }
      ADD_FAILURE() << test.kernel << " takes no floats";
    };
    return forward ? backwardOf(test, kernel.name) : fill(test);
  }

  void expectMet(double special, const char *usual) {
    const FilledCall filled = withOne(special);
    const auto &[call, inputs] = filled;
    const auto exact = referenceOutputs(call, inputs, Arithmetic::exact),
               base = referenceOutputs(call, inputs, Arithmetic::own);
    const std::vector<std::string> may = admitted(kernel.name, std::isnan(special));
    for (const std::string &name : devices(usual)) {
      const Device device = Device::open(name);
      const auto outputs =
          execute(device, call, completeConfig(call, device.target(), {}), inputs).outputs;
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (!call.tensors[inputs.size() + i].present)
          continue;
        const std::string &output = kernel.arguments[inputs.size() + i].name;
        SCOPED_TRACE(name + " " + output);
        Accuracy accuracy = judge(outputs[i], exact[i], base[i], kernel.factor);
        if (std::find(may.begin(), may.end(), output) != may.end()) {
          EXPECT_FALSE(accuracy.ok()) << "needs no admission";
          accuracy = judgeFinite(outputs[i], exact[i], base[i]);
        }
        EXPECT_TRUE(accuracy.ok()) << accuracy.describe();
      }
    }
  }

private:
  /// Of those elements that are finite, which have to be half of them at least.
  Accuracy judgeFinite(HostArray output, HostArray exact, HostArray base) const {
    std::vector<double> out = output.to_double(), ref = exact.to_double(), own = base.to_double();
    std::size_t left = 0;
    for (std::size_t i = 0; i < out.size(); ++i)
      if (!std::isfinite(out[i])) {
        out[i] = ref[i] = own[i] = 0;
        ++left;
      }
    EXPECT_LE(2 * left, out.size());
    output.assign(out);
    exact.assign(ref);
    base.assign(own);
    return judge(output, exact, base, kernel.factor);
  }
};

std::vector<std::string> namesOfFloatKernels() {
  std::vector<std::string> names;
  for (const KernelSpec &kernel : kernelRegistry())
    if (std::ranges::any_of(kernel.arguments, [](const ArgumentSpec &argument) {
          return !argument.output && std::ranges::any_of(argument.dtypes, is_floating);
        }))
      names.push_back(kernel.name);
  return names;
}
std::string caseName(const testing::TestParamInfo<std::string> &info) { return info.param; }
INSTANTIATE_TEST_SUITE_P(Specials, EveryKernel, testing::ValuesIn(namesOfFloatKernels()), caseName);

TEST_P(EveryKernel, MeetsANan) {
  expectMet(std::numeric_limits<double>::quiet_NaN(), "virtual:sm_90a");
}
TEST_P(EveryKernel, MeetsAnInfinity) {
  expectMet(std::numeric_limits<double>::infinity(), "virtual:sm_80");
}

} // namespace
