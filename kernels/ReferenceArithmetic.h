// What the library's references need beside the two arithmetics.
#pragma once
#include "kernels/References.h"
#include <bit>
#include <cmath>
#include <sectile/reference.h>

namespace sectile {

// NaN if either is: a row of scores with a NaN in it has no largest.
template <class Number> Number largerOrNan(Number a, Number b) {
  return std::isnan(a) || a > b ? a : b;
}

// The ten bits of mantissa that a tensor core reads of a tf32 operand.
inline float truncateToTf32(float value) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & ~0x1fffu);
}

} // namespace sectile
