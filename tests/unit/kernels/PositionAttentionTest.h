// What the tests of the attentions by positions share.
#pragma once
#include "KernelTest.h"
#include "kernels/Use.h"

namespace sectile::test {

/// Gives the inputs of a backward kernel that are outputs of the forward one their values.
inline void forwardFirst(const Invocation &call, std::vector<HostArray> &inputs) {
  std::string name = call.kernel->name;
  name.resize(name.size() - std::string("_backward").size());
  const KernelSpec &kernel = findKernel(name);
  std::map<std::string, GivenTensor> given;
  std::vector<HostArray> own;
  for (const ArgumentSpec &argument : kernel.arguments)
    if (!argument.output) {
      given[argument.name] = {call.tensor(argument.name), ""};
      own.push_back(inputs[call.index(argument.name)]);
    }
  Assignments options;
  for (const auto &[option, value] : call.options.values)
    if (!value.empty())
      options.emplace_back(option, value);
  const auto outputs = referenceOutputs(resolve(kernel, given, options), own, Arithmetic::exact);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    for (std::size_t j = 0; j < inputs.size(); ++j)
      if (call.kernel->arguments[j].name == kernel.arguments[own.size() + i].name)
        inputs[j].assign(outputs[i].toDouble());
}

/// A case of a backward kernel.
inline KernelCase backward(const char *kernel, std::map<std::string, std::int64_t> extents = {},
                           Assignments options = {}, const char *dtype = "") {
  KernelCase test{kernel, std::move(extents), std::move(options)};
  test.dtype = dtype;
  test.prepare = forwardFirst;
  return test;
}

inline std::vector<HostArray> run(const Device &device, const KernelCase &test) {
  const Invocation call = resolveCase(test);
  std::vector<HostArray> inputs = sampleInputs(call, test.seed);
  if (test.prepare)
    test.prepare(call, inputs);
  return execute(device, call, completeConfig(call, device.target(), test.config), inputs).outputs;
}

/// The bounds must refuse what `wrong` computes for the inputs of `right`.
inline void expectSeen(const Device &device, const KernelCase &right, const KernelCase &wrong,
                       const std::string &output) {
  const Invocation call = resolveCase(right), other = resolveCase(wrong);
  auto inputs = sampleInputs(call, 1);
  if (right.prepare)
    right.prepare(call, inputs);
  const auto outputs =
      execute(device, other, completeConfig(other, device.target(), {}), inputs).outputs;
  for (const Verdict &verdict : check(call, inputs, outputs))
    if (verdict.output == output) {
      EXPECT_FALSE(verdict.accuracy.ok()) << wrong.describe();
    }
}

} // namespace sectile::test
