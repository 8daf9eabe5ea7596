// The gate of rms_norm_gated: its function, its options, its references.
#pragma once
#include "kernels/registry/Registry.h"
#include <sectile/sectile.h>

namespace sectile::gated {

inline Tile<float> gateOf(const Tile<float> &z, bool silu) {
  return silu ? z * sigmoid(z) : sigmoid(z);
}
// Of the gate by z.
inline Tile<float> gateSlope(const Tile<float> &z, bool silu) {
  const auto s = sigmoid(z);
  return silu ? s * (1.0f + z * sigmoid(-z)) : s * sigmoid(-z);
}

inline std::vector<OptionRow> gateOptions() {
  return {{"activation: silu|sigmoid = silu", "of z"},
          {"norm_before_gate: flag = true",
           "the norm is of x, and the gate comes after; else of x times the gate"}};
}
inline bool isSilu(const Invocation &call) { return call.options.choice("activation") == "silu"; }
inline bool isNormFirst(const Invocation &call) { return call.options.flag("norm_before_gate"); }

ReferenceFunction rmsNormGatedReference;
ReferenceFunction rmsNormGatedBackwardReference;

} // namespace sectile::gated
