// The narrow floating-point formats, bit by bit.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace sectile::vgpu {

enum class Rounding { NearestEven, TowardZero };

// Narrows to a format with the given field widths, subnormals included. The sign is kept, a NaN
// becomes the format's own. `finite`: there is no infinity, one encoding of all ones is NaN (e4m3).
// `saturate`: too large becomes the largest finite value, infinity too.
struct FloatFormat {
  unsigned exponentBits, mantissaBits;
  bool finite, saturate;
};
constexpr FloatFormat f16Format{5, 10, false, false}, e4m3Format{4, 3, true, true},
    e5m2Format{5, 2, false, true};

inline uint32_t narrowFloat(float value, const FloatFormat &format, Rounding rounding) {
  unsigned bias = (1u << (format.exponentBits - 1)) - 1;
  uint32_t sign = (std::bit_cast<uint32_t>(value) >> 31)
                  << (format.exponentBits + format.mantissaBits);
  uint32_t allOnes = (1u << (format.exponentBits + format.mantissaBits)) - 1;
  uint32_t infinity = ((1u << format.exponentBits) - 1) << format.mantissaBits;
  uint32_t largest = format.finite ? allOnes - 1 : infinity - 1;
  if (std::isnan(value))
    return allOnes | (format.saturate ? 0 : sign);
  if (std::isinf(value))
    return sign | (format.saturate || format.finite ? largest : infinity);
  uint32_t bits = std::bit_cast<uint32_t>(value) & 0x7fffffffu;
  if (!bits)
    return sign;
  // A fixed-point mantissa with its leading one at bit 23.
  int exponent = int(bits >> 23) - 127;
  uint64_t mantissa = bits & 0x7fffffu;
  if (bits >> 23)
    mantissa |= 1u << 23;
  else
    exponent = -126;
  int lowest = 1 - int(bias);
  unsigned shift = 23 - format.mantissaBits;
  if (exponent < lowest)
    shift += unsigned(lowest - exponent);
  if (shift > 40)
    shift = 40;
  uint64_t kept = mantissa >> shift, rest = mantissa & ((uint64_t(1) << shift) - 1),
           half = uint64_t(1) << (shift - 1);
  if (rounding == Rounding::NearestEven && (rest > half || (rest == half && kept & 1)))
    ++kept;
  // A carry out of the mantissa moves into the exponent by itself.
  uint64_t result = kept;
  if (exponent >= lowest)
    result += uint64_t(exponent - lowest) << format.mantissaBits;
  if (result > largest)
    result =
        format.saturate || format.finite || rounding == Rounding::TowardZero ? largest : infinity;
  return sign | uint32_t(result);
}

inline float widenFloat(uint32_t bits, const FloatFormat &format) {
  unsigned bias = (1u << (format.exponentBits - 1)) - 1;
  uint32_t magnitude = bits & ((1u << (format.exponentBits + format.mantissaBits)) - 1);
  bool negative = bits >> (format.exponentBits + format.mantissaBits) & 1;
  uint32_t exponent = magnitude >> format.mantissaBits,
           mantissa = magnitude & ((1u << format.mantissaBits) - 1);
  bool highest = exponent == (1u << format.exponentBits) - 1;
  float value;
  if (format.finite ? highest && mantissa == (1u << format.mantissaBits) - 1 : highest && mantissa)
    value = std::bit_cast<float>(0x7fc00000u);
  else if (highest && !format.finite)
    value = INFINITY;
  else if (!exponent)
    value = std::ldexp(float(mantissa), 1 - int(bias) - int(format.mantissaBits));
  else
    value = std::ldexp(float(mantissa | 1u << format.mantissaBits),
                       int(exponent) - int(bias) - int(format.mantissaBits));
  return negative ? -value : value;
}

inline uint16_t halfFromFloat(float value, Rounding rounding = Rounding::NearestEven) {
  return uint16_t(narrowFloat(value, f16Format, rounding));
}
inline float floatFromHalf(uint16_t bits) { return widenFloat(bits, f16Format); }

inline uint16_t bfloatFromFloat(float value, Rounding rounding = Rounding::NearestEven) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return uint16_t(bits >> 16 | 0x40);
  if (rounding == Rounding::NearestEven)
    bits += 0x7fff + (bits >> 16 & 1);
  return uint16_t(bits >> 16);
}
inline float floatFromBfloat(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

// All values of an 8-bit format.
inline std::array<float, 256> widenAll(const FloatFormat &format) {
  std::array<float, 256> table;
  for (unsigned i = 0; i < 256; ++i)
    table[i] = widenFloat(i, format);
  return table;
}

} // namespace sectile::vgpu
