// The cases of kda and rwkv7 that the tests of both, and of their gradients, share.
#pragma once
#include "KernelTest.h"
#include <cmath>
#include <limits>

namespace sectile::test {

using Names = std::vector<std::string>;

/// What models have.
inline const KernelCase kda{"kda",
                            {},
                            {{"qk_l2norm", "true"}, {"beta_sigmoid", "true"}},
                            {"beta", "g", "A_log", "dt_bias", "initial_state", "cu_seqlens"}};
inline const KernelCase bounded{"kda",
                                {},
                                {{"gate", "sigmoid"}, {"lower_bound", "-4"}},
                                {"beta", "g", "A_log", "dt_bias", "initial_state"}};
inline const KernelCase plainly{"kda", {}, {}, {"beta", "g"}};
inline const KernelCase attention{
    "kda", {}, {{"rule", "add"}}, {"beta", "g", "D", "z", "initial_state", "cu_seqlens"}};
inline const KernelCase rwkv{"rwkv7", {}, {}, {"g", "initial_state", "cu_seqlens"}};

inline KernelCase with(KernelCase test, std::map<std::string, std::int64_t> extents,
                       const char *dtype = "bf16", const Config &config = {}) {
  test.extents = std::move(extents);
  test.dtype = dtype;
  test.config = config;
  return test;
}

/// The logarithm of a decay, by step and channel.
using Speed = std::function<float(std::int64_t, std::int64_t)>;

/// The logarithms by channel as `of` gives them.
inline KernelCase decayed(KernelCase test, const Speed &of) {
  test.prepare = [of](const Invocation &call, std::vector<HostArray> &inputs) {
    const std::int64_t width = call.extent("K"), heads = call.extent("Hv");
    HostArray &logs = inputs[call.index("g")];
    std::vector<double> values(static_cast<std::size_t>(logs.count()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      values[i] = of(at / (width * heads), at % width);
    }
    logs.assign(values);
  };
  return test;
}

/// Decays that differ by channel and go to nothing within a few steps, within one, or never.
inline const std::vector<Speed> speeds{
    [](std::int64_t, std::int64_t) { return 0.0f; },
    // -80 over 64 steps, -80 over 16, and -80 at each
    [](std::int64_t, std::int64_t d) { return d % 4 == 0   ? 0.0f
                                              : d % 4 == 1 ? -1.25f
                                                           : -5.0f; },
    [](std::int64_t, std::int64_t d) { return d % 3 == 0 ? -0.01f : -80.0f; },
    [](std::int64_t t, std::int64_t d) { return (t + d) % 9 == 3 ? -80.0f : -0.1f; },
    // -20 to 0
    [](std::int64_t t, std::int64_t d) { return -static_cast<float>((7 * t + 3 * d) % 21); },
    // to nothing
    [](std::int64_t t, std::int64_t d) {
      return (3 * t + d) % 7 == 2 ? -std::numeric_limits<float>::infinity() : -0.2f;
    },
    [](std::int64_t t, std::int64_t d) { return d % 2        ? -3e38f
                                                : t % 5 == 1 ? -1e6f
                                                             : -0.3f; },
    [](std::int64_t, std::int64_t) { return -std::numeric_limits<float>::infinity(); }};

} // namespace sectile::test
