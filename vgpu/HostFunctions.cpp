// Arithmetic that generated code calls: the hardware's approximate functions, within their stated
// errors, conversions, and what the host's compiler expects from its runtime library.
#include "vgpu/SmallFloats.h"
#include "vgpu/Symbols.h"
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <iterator>

namespace sectile::vgpu {
namespace {

float flush(float value) { return std::fabs(value) < FLT_MIN ? std::copysign(0.0f, value) : value; }

float ex2_f32(float x) { return std::exp2(x); }
float ex2_ftz_f32(float x) { return flush(std::exp2(x)); }
float lg2_f32(float x) { return std::log2(x); }
float lg2_ftz_f32(float x) { return std::log2(flush(x)); }
float rcp_f32(float x) { return 1.0f / x; }
float rcp_ftz_f32(float x) { return flush(1.0f / flush(x)); }
double rcp_f64(double x) { return 1.0 / x; }
float rsqrt_f32(float x) { return float(1.0 / std::sqrt(double(x))); }
float rsqrt_ftz_f32(float x) { return rsqrt_f32(flush(x)); }
double rsqrt_f64(double x) { return 1.0 / std::sqrt(x); }
float div_f32(float x, float y) { return x / y; }
float div_ftz_f32(float x, float y) { return flush(flush(x) / flush(y)); }

uint32_t pair(uint32_t low, uint32_t high) { return low | high << 16; }

uint32_t ex2_f16(uint32_t x) { return halfFromFloat(std::exp2(floatFromHalf(uint16_t(x)))); }
uint32_t ex2_f16x2(uint32_t x) { return pair(ex2_f16(x & 0xffff), ex2_f16(x >> 16)); }
uint32_t ex2_bf16(uint32_t x) {
  return bfloatFromFloat(flush(std::exp2(floatFromBfloat(uint16_t(x)))));
}
uint32_t ex2_bf16x2(uint32_t x) { return pair(ex2_bf16(x & 0xffff), ex2_bf16(x >> 16)); }

// The first operand of the two-element conversions is the upper half.
constexpr Rounding rz = Rounding::TowardZero;
uint32_t f16_from_f32(float x) { return halfFromFloat(x); }
uint32_t f16_from_f32_rz(float x) { return halfFromFloat(x, rz); }
uint32_t bf16_from_f32(float x) { return bfloatFromFloat(x); }
uint32_t bf16_from_f32_rz(float x) { return bfloatFromFloat(x, rz); }
uint32_t f16x2_from_f32(float high, float low) {
  return pair(halfFromFloat(low), halfFromFloat(high));
}
uint32_t f16x2_from_f32_rz(float high, float low) {
  return pair(halfFromFloat(low, rz), halfFromFloat(high, rz));
}
uint32_t bf16x2_from_f32(float high, float low) {
  return pair(bfloatFromFloat(low), bfloatFromFloat(high));
}
uint32_t bf16x2_from_f32_rz(float high, float low) {
  return pair(bfloatFromFloat(low, rz), bfloatFromFloat(high, rz));
}

template <const FloatFormat &format> uint32_t narrowPair(float high, float low) {
  return narrowFloat(low, format, Rounding::NearestEven) |
         narrowFloat(high, format, Rounding::NearestEven) << 8;
}
template <const FloatFormat &format> uint32_t narrowHalves(uint32_t halves) {
  return narrowPair<format>(floatFromHalf(uint16_t(halves >> 16)), floatFromHalf(uint16_t(halves)));
}
template <const FloatFormat &format> uint32_t widenPair(uint32_t bytes) {
  return pair(halfFromFloat(widenFloat(bytes & 0xff, format)),
              halfFromFloat(widenFloat(bytes >> 8 & 0xff, format)));
}

// tf32 keeps ten bits of mantissa; infinities and NaN as they are.
uint32_t tf32(float x, uint32_t added) {
  auto bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7f800000u) == 0x7f800000u)
    return bits & 0x7fffffu ? 0x7fffffffu : bits;
  return (bits + added) & 0xffffe000u;
}
uint32_t tf32_rna(float x) { return tf32(x, 0x1000); }
uint32_t tf32_rn(float x) { return tf32(x, 0xfff + (std::bit_cast<uint32_t>(x) >> 13 & 1)); }
uint32_t tf32_rz(float x) { return tf32(x, 0); }

// Four bytes chosen from eight; the fourth bit of a selector copies the byte's sign.
uint32_t prmt(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t bytes = uint64_t(b) << 32 | a;
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    uint32_t select = selector >> 4 * i & 15;
    auto byte = uint32_t(bytes >> 8 * (select & 7) & 0xff);
    if (select & 8)
      byte = byte & 0x80 ? 0xff : 0;
    result |= byte << 8 * i;
  }
  return result;
}

// v_perm_b32: bytes 0-3 are the second operand's, 4-7 the first's; 8-11 are signs, 12 zero, above
// all ones.
uint32_t amd_perm(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t bytes = uint64_t(a) << 32 | b;
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    uint32_t select = selector >> 8 * i & 0xff, byte = 0;
    if (select < 8)
      byte = uint32_t(bytes >> 8 * select & 0xff);
    else if (select < 12)
      byte = bytes >> (16 * (select - 8) + 15) & 1 ? 0xff : 0;
    else if (select > 12)
      byte = 0xff;
    result |= byte << 8 * i;
  }
  return result;
}
float amd_sin(float turns) {
  return float(std::sin(2 * M_PI * std::remainder(double(turns), 1.0)));
}
float amd_cos(float turns) {
  return float(std::cos(2 * M_PI * std::remainder(double(turns), 1.0)));
}
float amd_fract(float x) { return std::fmin(x - std::floor(x), 0x1.fffffep-1f); }
float amd_fmed3(float a, float b, float c) {
  if (std::isnan(a) || std::isnan(b) || std::isnan(c))
    return std::fmin(std::fmin(a, b), c);
  return std::fmax(std::fmin(a, b), std::fmin(std::fmax(a, b), c));
}
uint32_t amd_pkrtz(float low, float high) {
  return pair(halfFromFloat(low, rz), halfFromFloat(high, rz));
}

// Rounding twice must not round up what the first rounding made a tie: round to odd first.
float oddFloatFromDouble(double value) {
  auto nearest = float(value);
  if (std::isnan(value) || double(nearest) == value)
    return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(double(nearest)) > std::fabs(value))
    --bits; // toward zero
  return std::bit_cast<float>(bits | 1);
}

#if defined(__x86_64__)
// The compiler's runtime passes 16-bit floats in vector registers.
typedef float HalfRegister __attribute__((vector_size(16)));
HalfRegister inRegister(uint32_t value) {
  return HalfRegister{std::bit_cast<float>(value), 0, 0, 0};
}
uint16_t fromRegister(HalfRegister value) { return uint16_t(std::bit_cast<uint32_t>(value[0])); }
HalfRegister truncsfbf2(float value) { return inRegister(bfloatFromFloat(value)); }
HalfRegister truncdfbf2(double value) {
  return inRegister(bfloatFromFloat(oddFloatFromDouble(value)));
}
HalfRegister truncsfhf2(float value) { return inRegister(halfFromFloat(value)); }
HalfRegister truncdfhf2(double value) {
  return inRegister(halfFromFloat(oddFloatFromDouble(value)));
}
float extendhfsf2(HalfRegister value) { return floatFromHalf(fromRegister(value)); }
#endif

} // namespace

#define SECTILE_HOST(name) {"sectile_vg_" #name, reinterpret_cast<void *>(&(name))}
#define SECTILE_HOST_AS(name, ...) {"sectile_vg_" #name, reinterpret_cast<void *>(&(__VA_ARGS__))}

SymbolTable hostSymbols() {
  static const Symbol table[] = {
      SECTILE_HOST(ex2_f32),
      SECTILE_HOST(ex2_ftz_f32),
      SECTILE_HOST(ex2_f16),
      SECTILE_HOST(ex2_f16x2),
      SECTILE_HOST(ex2_bf16),
      SECTILE_HOST(ex2_bf16x2),
      SECTILE_HOST(lg2_f32),
      SECTILE_HOST(lg2_ftz_f32),
      SECTILE_HOST(rcp_f32),
      SECTILE_HOST(rcp_ftz_f32),
      SECTILE_HOST(rcp_f64),
      SECTILE_HOST(rsqrt_f32),
      SECTILE_HOST(rsqrt_ftz_f32),
      SECTILE_HOST(rsqrt_f64),
      SECTILE_HOST(div_f32),
      SECTILE_HOST(div_ftz_f32),
      SECTILE_HOST(f16_from_f32),
      SECTILE_HOST(f16_from_f32_rz),
      SECTILE_HOST(bf16_from_f32),
      SECTILE_HOST(bf16_from_f32_rz),
      SECTILE_HOST(f16x2_from_f32),
      SECTILE_HOST(f16x2_from_f32_rz),
      SECTILE_HOST(bf16x2_from_f32),
      SECTILE_HOST(bf16x2_from_f32_rz),
      SECTILE_HOST_AS(e4m3x2_from_f32, narrowPair<e4m3Format>),
      SECTILE_HOST_AS(e5m2x2_from_f32, narrowPair<e5m2Format>),
      SECTILE_HOST_AS(e4m3x2_from_f16x2, narrowHalves<e4m3Format>),
      SECTILE_HOST_AS(e5m2x2_from_f16x2, narrowHalves<e5m2Format>),
      SECTILE_HOST_AS(f16x2_from_e4m3x2, widenPair<e4m3Format>),
      SECTILE_HOST_AS(f16x2_from_e5m2x2, widenPair<e5m2Format>),
      SECTILE_HOST(tf32_rna),
      SECTILE_HOST(tf32_rn),
      SECTILE_HOST(tf32_rz),
      SECTILE_HOST(prmt),
      SECTILE_HOST(amd_perm),
      SECTILE_HOST(amd_sin),
      SECTILE_HOST(amd_cos),
      SECTILE_HOST(amd_fract),
      SECTILE_HOST(amd_fmed3),
      SECTILE_HOST(amd_pkrtz),
#if defined(__x86_64__)
      {"__truncsfbf2", reinterpret_cast<void *>(&truncsfbf2)},
      {"__truncdfbf2", reinterpret_cast<void *>(&truncdfbf2)},
      {"__truncsfhf2", reinterpret_cast<void *>(&truncsfhf2)},
      {"__truncdfhf2", reinterpret_cast<void *>(&truncdfhf2)},
      {"__extendhfsf2", reinterpret_cast<void *>(&extendhfsf2)},
#endif
  };
  return {table, std::size(table)};
}

} // namespace sectile::vgpu
