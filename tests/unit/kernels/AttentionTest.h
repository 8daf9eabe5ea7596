// What the tests of the attention kernels share: each option by itself, and what others would miss.
#pragma once
#include "KernelTest.h"
#include <cmath>
#include <limits>

namespace sectile::test {

class Attention : public OnDevice {};
class AttentionAnywhere : public OnDevice {};

struct AttentionFeature {
  Assignments options = {};
  std::vector<std::string> with = {};
  std::map<std::string, std::int64_t> extents = {};
};

inline std::vector<AttentionFeature> attentionFeatures() {
  return {{{{"causal", "true"}}},
          {{{"window_left", "9"}}},
          {{{"window_left", "4"}, {"window_right", "3"}}},
          {{{"softcap", "1.5"}}},
          {{{"dropout", "0.25"}, {"seed", "12345678901234567"}}},
          {{{"scale", "0.7"}}},
          {{}, {"bias"}},
          {{}, {"mask"}},
          {{}, {"sinks"}},
          {{}, {}, {{"Dv", 48}}},
          {{}, {}, {{"Hkv", 2}}}};
}

/// Sound also where it is of a backward kernel.
inline KernelCase sound(KernelCase test) {
  return std::string_view(test.kernel).ends_with("_backward") ? consistent(std::move(test)) : test;
}

/// A kernel that forgot what `feature` asks for would be found out.
inline void expectMissed(const Device &device, const char *kernel,
                         const AttentionFeature &feature) {
  KernelCase test{kernel, {{"Hq", 4}}, feature.options, feature.with, "f16"};
  SCOPED_TRACE(test.describe());
  const Invocation call = resolveCase(test);
  std::vector<HostArray> inputs = sampleInputs(call, 1), kept = inputs;
  test.options.clear();
  test.with.clear();
  const Invocation without = resolveCase(test);
  for (std::size_t i = 0; i < kept.size(); ++i)
    if (!without.tensors[i].present)
      kept[i] = {};
  std::vector<HostArray> outputs =
      execute(device, without, completeConfig(without, device.target(), {}), kept).outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (const TensorType &type = call.tensors[inputs.size() + i]; outputs[i].data.empty())
      outputs[i] = HostArray(type.dtype, type.shape);
  std::size_t missed = 0;
  for (const Verdict &verdict : check(call, inputs, outputs))
    missed += !verdict.accuracy.ok();
  EXPECT_GT(missed, 0u);
}

} // namespace sectile::test
