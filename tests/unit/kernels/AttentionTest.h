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

} // namespace sectile::test
