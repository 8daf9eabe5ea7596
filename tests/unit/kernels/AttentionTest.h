// What the tests of the attention kernels share: each option by itself, and seeded mixtures.
#pragma once
#include "KernelTest.h"
#include <cmath>
#include <limits>

namespace sectile::test {

class Attention : public OnDevice {};
class AttentionAnywhere : public OnDevice {};

inline bool exhaustive() {
  const char *all = std::getenv("SECTILE_TEST_ALL");
  return all && std::string(all) == "1";
}

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

/// A few features drawn together, with lengths, dtype and layout; one seed, one case.
inline KernelCase randomAttentionCase(const char *kernel, std::uint64_t seed, int most = 80) {
  std::mt19937_64 random(seed);
  auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  KernelCase test{kernel};
  const auto features = attentionFeatures();
  std::map<std::string, std::string> options;
  test.extents["Hq"] = 4;
  for (int i = 0; i < 3; ++i) {
    const AttentionFeature &feature = features[random() % features.size()];
    for (const auto &[name, value] : feature.options)
      options[name] = value;
    for (const auto &[name, value] : feature.extents)
      test.extents[name] = value;
    for (const std::string &name : feature.with)
      if (std::find(test.with.begin(), test.with.end(), name) == test.with.end())
        test.with.push_back(name);
  }
  test.extents["Sq"] = 1 + below(static_cast<std::uint64_t>(most));
  test.extents["Sk"] = 1 + below(static_cast<std::uint64_t>(most));
  test.extents["B"] = 1 + below(2);
  options["layout"] = below(2) ? "bshd" : "bhsd";
  test.options.assign(options.begin(), options.end());
  if (below(2))
    test.single = test.with;
  test.dtype = std::array{"f16", "bf16", "f32"}[random() % 3];
  test.seed = seed;
  return test;
}

/// A backward case with o and lse as the forward pass gives them, so that its gradients are those
/// of something.
inline KernelCase consistent(KernelCase test) {
  test.prepare = [test](const Invocation &call, std::vector<HostArray> &inputs) {
    if (test.prepare)
      test.prepare(call, inputs);
    const std::string &name = call.kernel->name;
    const KernelSpec &forward = findKernel(name.substr(0, name.find("_backward")));
    std::map<std::string, GivenTensor> types;
    std::vector<HostArray> forwardInputs;
    for (const ArgumentSpec &spec : forward.arguments)
      if (!spec.output) {
        const std::size_t i = call.index(spec.name);
        forwardInputs.push_back(inputs[i]);
        if (call.tensors[i].present)
          types[spec.name] = {call.tensors[i], ""};
      }
    const Invocation made = resolve(forward, types, test.options);
    const auto outputs = referenceOutputs(made, forwardInputs, Arithmetic::exact);
    inputs[call.index("o")].assign(outputs[0].toDouble());
    inputs[call.index("lse")].assign(outputs[1].toDouble());
  };
  return test;
}

/// Likewise, if it is one.
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
