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

// What gives numbers their scale: one that the caller gives for all, or the largest of their
// magnitudes, of which `most` counts at most.
template <class Q> struct ScaleRule {
  View<const float, 1> given; // [1]
  Float most;
  bool isGiven = false, isBounded = false, powerOfTwo = false;

  Tile<float> operator()(const Tile<float> &largest) const {
    if (isGiven)
      return full_like(largest, load(given.ptr()));
    return scaleFor<Q>(isBounded ? minimum(largest, most, Nan::propagate) : largest, powerOfTwo);
  }
};

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
    return cast<Q>(maximum(rint(scaled), -127.0f, Nan::propagate)); // as far down as up
  else
    return cast<Q>(scaled);
}

} // namespace sectile
