// What the tests of the attentions by positions share.
#pragma once
#include "KernelTest.h"
#include "kernels/calls/Use.h"

namespace sectile::test {

/// A case of a backward kernel.
inline KernelCase backward(const char *kernel, std::map<std::string, std::int64_t> extents = {},
                           Assignments options = {}, const char *dtype = "") {
  KernelCase test{kernel, std::move(extents), std::move(options)};
  test.dtype = dtype;
  return consistent(std::move(test));
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
