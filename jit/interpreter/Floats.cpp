// The floating-point formats.
#include "jit/interpreter/Floats.h"
#include <bit>
#include <cmath>
#include <limits>

using namespace mlir;

namespace sectile::interpreter {

const FloatFormat f16Format{16, 10, 15, true, true}, bf16Format{16, 7, 127, true, true},
    f32Format{32, 23, 127, true, true}, f64Format{64, 52, 1023, true, true};
static const FloatFormat e5m2{8, 2, 15, true, true}, e4m3{8, 3, 7, false, true},
    e4m3fnuz{8, 3, 8, false, false}, e5m2fnuz{8, 2, 16, false, false},
    e4m3b11{8, 3, 11, false, false};

const FloatFormat *FloatFormat::of(Type type) {
  if (type.isF32())
    return &f32Format;
  if (type.isF16())
    return &f16Format;
  if (type.isBF16())
    return &bf16Format;
  if (type.isF64())
    return &f64Format;
  if (isa<Float8E4M3FNType>(type))
    return &e4m3;
  if (isa<Float8E5M2Type>(type))
    return &e5m2;
  if (isa<Float8E4M3FNUZType>(type))
    return &e4m3fnuz;
  if (isa<Float8E5M2FNUZType>(type))
    return &e5m2fnuz;
  if (isa<Float8E4M3B11FNUZType>(type))
    return &e4m3b11;
  return nullptr;
}

double FloatFormat::decode(uint64_t word) const {
  if (bits == 64)
    return std::bit_cast<double>(word);
  if (bits == 32)
    return std::bit_cast<float>(static_cast<uint32_t>(word));
  if (isNan(word))
    return std::numeric_limits<double>::quiet_NaN();
  const uint64_t magnitude = word & (signBit() - 1), sign = (word & signBit()) << (64 - bits);
  if (hasInfinity && magnitude == infinity())
    return std::bit_cast<double>(sign | 0x7ff0'0000'0000'0000u);
  const uint64_t exponent = magnitude >> mantissaBits,
                 mantissa = magnitude & ((uint64_t(1) << mantissaBits) - 1);
  if (exponent == 0) {
    double value = std::ldexp(static_cast<double>(mantissa), 1 - bias - int(mantissaBits));
    return sign ? -value : value;
  }
  return std::bit_cast<double>(sign | (exponent + uint64_t(1023 - bias)) << 52 |
                               mantissa << (52 - mantissaBits));
}

uint64_t FloatFormat::encode(double value, Rounding rounding, bool saturate) const {
  if (std::isnan(value))
    return nan();
  const bool nearest = rounding == Rounding::NearestEven;
  if (bits == 64)
    return std::isinf(value) && saturate ? std::bit_cast<uint64_t>(value) - 1
                                         : std::bit_cast<uint64_t>(value);
  if (bits == 32 && nearest && !saturate)
    return std::bit_cast<uint32_t>(static_cast<float>(value));
  const uint64_t word = std::bit_cast<uint64_t>(value), sign = word >> 63 ? signBit() : 0;
  if (std::isinf(value))
    return saturate ? sign | largest() : hasInfinity ? sign | infinity() : nan();
  const int exponent = int(word >> 52 & 0x7ff) - 1023, lowest = 1 - bias;
  const uint64_t fraction = word & ((uint64_t(1) << 52) - 1);
  if (exponent == -1023) // zero, and what is far below every format's smallest number
    return hasMinusZero ? sign : 0;
  const uint64_t mantissa = fraction | uint64_t(1) << 52;
  unsigned shift = 52 - mantissaBits + unsigned(exponent < lowest ? lowest - exponent : 0);
  shift = shift > 60 ? 60 : shift;
  uint64_t kept = mantissa >> shift;
  const uint64_t rest = mantissa & ((uint64_t(1) << shift) - 1), half = uint64_t(1) << (shift - 1);
  if (nearest && (rest > half || (rest == half && kept & 1)))
    ++kept;
  // A carry out of the mantissa moves into the exponent by itself.
  const uint64_t code =
      kept + (exponent >= lowest ? uint64_t(exponent - lowest) << mantissaBits : 0);
  if (code > largest()) {
    if (saturate || !nearest)
      return sign | largest();
    return hasInfinity ? sign | infinity() : nan();
  }
  return code == 0 && !hasMinusZero ? 0 : sign | code;
}

double FloatFormat::halfUlp(double value) const {
  int exponent = 1 - bias;
  if (value != 0 && std::isfinite(value))
    exponent = std::max(exponent, std::ilogb(value));
  return std::ldexp(0.5, exponent - int(mantissaBits));
}

double multiplyAddToOdd(double a, double b, double c) {
  const double product = a * b, sum = product + c;
  if (!std::isfinite(sum))
    return sum;
  // What the sum lost, exactly.
  const double part = sum - product, lost = (product - (sum - part)) + (c - part);
  const auto word = std::bit_cast<uint64_t>(sum);
  if (lost == 0 || word & 1)
    return sum;
  // Between this and the neighbour that is odd, on the side of what was lost.
  return std::bit_cast<double>((lost > 0) == (sum > 0) ? word + 1 : word - 1);
}

} // namespace sectile::interpreter
