// The element types a kernel works on that C++ has no name for (half, bfloat16, the fp8
// formats), as storage types with exact conversions, and DType, which names every element type at
// run time.
#pragma once
#include <sectile/compiler.h>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

namespace sectile {

namespace detail {

// What a format has beside finite numbers.
enum class Specials : std::uint8_t {
  ieee,        // infinities and NaNs, with all ones in the exponent
  nanOfOnes,   // no infinity; NaN is the code with all ones
  nanOfMinus0, // no infinity, no negative zero: its code is NaN
};

// A binary floating-point format of at most 16 bits: sign, exponent, mantissa.
struct HalfFormat {
  using Bits = std::uint16_t;
  static constexpr int exponentBits = 5, mantissaBits = 10, bias = 15;
  static constexpr Specials specials = Specials::ieee;
  static constexpr bool saturates = false;
};
struct Bfloat16Format {
  using Bits = std::uint16_t;
  static constexpr int exponentBits = 8, mantissaBits = 7, bias = 127;
  static constexpr Specials specials = Specials::ieee;
  static constexpr bool saturates = false;
};
template <int exponent, int bias_, Specials specials_> struct Fp8Format {
  using Bits = std::uint8_t;
  static constexpr int exponentBits = exponent, mantissaBits = 7 - exponent, bias = bias_;
  static constexpr Specials specials = specials_;
  static constexpr bool saturates = true;
};
using E4m3Format = Fp8Format<4, 7, Specials::nanOfOnes>;
using E5m2Format = Fp8Format<5, 15, Specials::ieee>;
using E4m3fnuzFormat = Fp8Format<4, 8, Specials::nanOfMinus0>;
using E5m2fnuzFormat = Fp8Format<5, 16, Specials::nanOfMinus0>;
using E4m3b11fnuzFormat = Fp8Format<4, 11, Specials::nanOfMinus0>;

template <class Format> struct SmallFloatCodes {
  using Bits = typename Format::Bits;
  static constexpr bool hasInfinity = Format::specials == Specials::ieee;
  static constexpr bool hasMinusZero = Format::specials != Specials::nanOfMinus0;
  static constexpr unsigned exponentMask = (1u << Format::exponentBits) - 1;
  static constexpr unsigned mantissaMask = (1u << Format::mantissaBits) - 1;
  static constexpr unsigned sign = 1u << (Format::exponentBits + Format::mantissaBits);
  static constexpr unsigned infinity = exponentMask << Format::mantissaBits; // where there is one
  static constexpr unsigned nan = hasInfinity     ? infinity | (1u << (Format::mantissaBits - 1))
                                  : !hasMinusZero ? sign
                                                  : sign - 1;
  static constexpr unsigned max = hasInfinity ? infinity - 1 : nan - 1;

  // Round to nearest, ties to even. From double, so that a double is rounded once.
  static constexpr Bits encode(double value) {
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
    const unsigned signBit = (bits >> 63) ? sign : 0;
    const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
    const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
    if (exponent == 1024 && fraction != 0)
      return static_cast<Bits>(hasMinusZero ? signBit | nan : nan);
    const unsigned overflow = Format::saturates ? max : infinity;
    if (exponent == 1024)
      return static_cast<Bits>(signBit | overflow);
    if (exponent ==
        -1023) // Zero, or a subnormal double: far below half of any smallest number here.
      return zero(signBit);
    int drop = 52 - Format::mantissaBits;
    int biased = exponent + Format::bias;
    if (biased < 1) { // The result is subnormal.
      drop += 1 - biased;
      biased = 1;
    }
    if (drop > 54)
      return zero(signBit);
    const std::uint64_t significand = fraction | (std::uint64_t{1} << 52);
    const std::uint64_t half = std::uint64_t{1} << (drop - 1);
    const std::uint64_t rest = significand & ((std::uint64_t{1} << drop) - 1);
    std::uint64_t kept = significand >> drop;
    kept += rest > half || (rest == half && (kept & 1));
    // A carry out of the mantissa moves on into the exponent, which is what rounding up means.
    const std::uint64_t code =
        (static_cast<std::uint64_t>(biased - 1) << Format::mantissaBits) + kept;
    if (code == 0)
      return zero(signBit);
    return static_cast<Bits>(signBit | (code > max ? overflow : static_cast<unsigned>(code)));
  }
  static constexpr Bits zero(unsigned signBit) {
    return static_cast<Bits>(hasMinusZero ? signBit : 0);
  }

  static constexpr float decode(Bits code) {
    const std::uint32_t signBit = (code & sign) ? 0x8000'0000u : 0;
    const unsigned magnitude = code & (sign - 1);
    if (hasInfinity ? magnitude > infinity : hasMinusZero ? magnitude == nan : code == nan)
      return std::bit_cast<float>(signBit | 0x7fc0'0000u);
    if (hasInfinity && magnitude == infinity)
      return std::bit_cast<float>(signBit | 0x7f80'0000u);
    constexpr int shift = 23 - Format::mantissaBits;
    if constexpr (Format::exponentBits == 8) // float's own exponent: subnormals agree as well.
      return std::bit_cast<float>(signBit | (static_cast<std::uint32_t>(magnitude) << shift));
    int exponent = static_cast<int>(magnitude >> Format::mantissaBits);
    std::uint32_t mantissa = magnitude & mantissaMask;
    if (exponent == 0) {
      if (mantissa == 0)
        return std::bit_cast<float>(signBit);
      exponent = 1;
      while (!(mantissa & (1u << Format::mantissaBits))) {
        mantissa <<= 1;
        --exponent;
      }
      mantissa &= mantissaMask;
    }
    return std::bit_cast<float>(signBit |
                                (static_cast<std::uint32_t>(exponent - Format::bias + 127) << 23) |
                                (mantissa << shift));
  }
};

} // namespace detail

// A number of a small format. It converts to float without loss and by itself; a conversion into it
// rounds to nearest even and is spelt out, but for plain assignment. The fp8 formats saturate: what
// is too large, infinity included, becomes the largest number, as the hardware's conversions do;
// half and bfloat16 overflow to infinity.
template <class Format> struct SmallFloat {
  using Bits = typename Format::Bits;
  Bits bits;

  SmallFloat() = default;
  template <class T>
    requires std::is_arithmetic_v<T>
  constexpr explicit SmallFloat(T value)
      : bits(detail::SmallFloatCodes<Format>::encode(static_cast<double>(value))) {}
  template <std::floating_point T> constexpr SmallFloat &operator=(T value) {
    return *this = SmallFloat(value);
  }
  constexpr operator float() const { return detail::SmallFloatCodes<Format>::decode(bits); }

  static constexpr SmallFloat from_bits(Bits bits) {
    SmallFloat result(0.0f);
    result.bits = bits;
    return result;
  }
};

using half = SmallFloat<detail::HalfFormat>;
using bfloat16 = SmallFloat<detail::Bfloat16Format>;
using float8_e4m3 = SmallFloat<detail::E4m3Format>; // finite numbers and NaN up to 448
using float8_e5m2 = SmallFloat<detail::E5m2Format>; // up to 57344, with infinities
// Finite numbers and one NaN, without a negative zero: up to 240, 57344 and 30.
using float8_e4m3fnuz = SmallFloat<detail::E4m3fnuzFormat>;
using float8_e5m2fnuz = SmallFloat<detail::E5m2fnuzFormat>;
using float8_e4m3b11fnuz = SmallFloat<detail::E4m3b11fnuzFormat>;

// Every element type of a tensor.
enum class DType : std::uint8_t {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float8_e4m3,
  float8_e5m2,
  float8_e4m3fnuz,
  float8_e5m2fnuz,
  float8_e4m3b11fnuz,
  float16,
  bfloat16,
  float32,
  float64,
};

namespace detail {
struct DTypeInfo {
  std::string_view name;
  std::uint8_t size;
};
inline constexpr DTypeInfo dtypes[] = {
    {"bool", 1},   {"i8", 1},         {"i16", 2},        {"i32", 4},           {"i64", 8},
    {"u8", 1},     {"u16", 2},        {"u32", 4},        {"u64", 8},           {"f8e4m3", 1},
    {"f8e5m2", 1}, {"f8e4m3fnuz", 1}, {"f8e5m2fnuz", 1}, {"f8e4m3b11fnuz", 1}, {"f16", 2},
    {"bf16", 2},   {"f32", 4},        {"f64", 8},
};

template <class T> constexpr int dtypeIndex() {
  if constexpr (std::same_as<T, bool>)
    return static_cast<int>(DType::boolean);
  else if constexpr (std::integral<T> && sizeof(T) <= 8)
    return static_cast<int>(std::is_signed_v<T> ? DType::int8 : DType::uint8) +
           std::countr_zero(sizeof(T));
  else if constexpr (std::same_as<T, float8_e4m3>)
    return static_cast<int>(DType::float8_e4m3);
  else if constexpr (std::same_as<T, float8_e5m2>)
    return static_cast<int>(DType::float8_e5m2);
  else if constexpr (std::same_as<T, float8_e4m3fnuz>)
    return static_cast<int>(DType::float8_e4m3fnuz);
  else if constexpr (std::same_as<T, float8_e5m2fnuz>)
    return static_cast<int>(DType::float8_e5m2fnuz);
  else if constexpr (std::same_as<T, float8_e4m3b11fnuz>)
    return static_cast<int>(DType::float8_e4m3b11fnuz);
  else if constexpr (std::same_as<T, half>)
    return static_cast<int>(DType::float16);
  else if constexpr (std::same_as<T, bfloat16>)
    return static_cast<int>(DType::bfloat16);
  else if constexpr (std::same_as<T, float>)
    return static_cast<int>(DType::float32);
  else if constexpr (std::same_as<T, double>)
    return static_cast<int>(DType::float64);
  else
    return -1;
}
} // namespace detail

// A C++ type that a tensor can hold.
template <class T>
concept Element = detail::dtypeIndex<std::remove_cv_t<T>>() >= 0;

template <Element T>
inline constexpr DType dtype_of = static_cast<DType>(detail::dtypeIndex<std::remove_cv_t<T>>());

constexpr std::size_t size_of(DType type) { return detail::dtypes[static_cast<int>(type)].size; }
constexpr std::string_view name_of(DType type) {
  return detail::dtypes[static_cast<int>(type)].name;
}
constexpr bool is_floating(DType type) { return type >= DType::float8_e4m3; }

} // namespace sectile

template <class Format> struct std::numeric_limits<sectile::SmallFloat<Format>> {
private:
  using T = sectile::SmallFloat<Format>;
  using Bits = typename Format::Bits;
  using Codes = sectile::detail::SmallFloatCodes<Format>;
  static constexpr T code(unsigned bits) { return T::from_bits(static_cast<Bits>(bits)); }

public:
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false,
                        is_exact = false;
  static constexpr bool has_infinity = Codes::hasInfinity, has_quiet_NaN = true, is_bounded = true;
  static constexpr bool is_iec559 = std::same_as<Format, sectile::detail::HalfFormat>;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr int radix = 2, digits = Format::mantissaBits + 1;
  static constexpr int digits10 = Format::mantissaBits * 301 / 1000;
  static constexpr int max_digits10 = 2 + digits * 301 / 1000;
  static constexpr int min_exponent = 2 - Format::bias;
  static constexpr int max_exponent =
      static_cast<int>(Codes::exponentMask) - Format::bias + (Codes::hasInfinity ? 0 : 1);
  static constexpr T min() { return code(1u << Format::mantissaBits); }
  static constexpr T max() { return code(Codes::max); }
  static constexpr T lowest() { return code(Codes::max | Codes::sign); }
  static constexpr T epsilon() { return T(1.0 / (1 << Format::mantissaBits)); }
  static constexpr T round_error() { return T(0.5); }
  static constexpr T denorm_min() { return code(1); }
  static constexpr T infinity() { return code(Codes::hasInfinity ? Codes::infinity : 0); }
  static constexpr T quiet_NaN() { return code(Codes::nan); }
};
