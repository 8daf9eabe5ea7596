// Codes of 8 bits and the scales that they share, as device functions.
#pragma once
#include "kernels/quantize/Granularity.h"
#include <limits>
#include <sectile/sectile.h>

namespace sectile {

// max(largest / largest code, leastScale), or the power of two that is not below it; NaN of a NaN
// and of infinities.
template <class Q> Tile<float> scaleFor(const Tile<float> &largest, bool powerOfTwo) {
  constexpr auto most = static_cast<float>(std::numeric_limits<Q>::max());
  auto scale = maximum(largest / most, static_cast<float>(leastScale));
  if (powerOfTwo) // rounded up, which is the exponent's part of the bits
    scale = bitcast<float>((bitcast<std::uint32_t>(scale) + 0x7fffffu) & 0xff800000u);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  return where(largest < infinity, scale, std::numeric_limits<float>::quiet_NaN());
}

// As memory holds it: e8m0 is the exponent's part of the bits, 255 of NaN.
template <class S> Tile<S> storedScale(const Tile<float> &scale) {
  if constexpr (std::same_as<S, std::uint8_t>)
    return cast<S>(bitcast<std::uint32_t>(scale) >> 23);
  else
    return scale;
}

template <class Q> Tile<Q> codesOf(const Tile<float> &values, const Tile<float> &scale) {
  const auto scaled = values * (1.0f / scale);
  if constexpr (std::same_as<Q, std::int8_t>)
    return cast<Q>(rint(scaled));
  else
    return cast<Q>(scaled);
}

} // namespace sectile
