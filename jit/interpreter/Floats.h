// The floating-point formats as the language defines them, by way of double: every number of up to
// 32 bits is one exactly, and rounding a double's sum, product, quotient or root of them once more
// gives the correctly rounded one.
#ifndef SECTILE_JIT_INTERPRETER_FLOATS_H
#define SECTILE_JIT_INTERPRETER_FLOATS_H

#include "mlir/IR/BuiltinTypes.h"
#include <cstdint>

namespace sectile::interpreter {

enum class Rounding { NearestEven, TowardZero };

struct FloatFormat {
  unsigned bits, mantissaBits;
  int bias;
  bool hasInfinity;  ///< else the largest codes are numbers, too
  bool hasMinusZero; ///< else its code is the only NaN

  uint64_t signBit() const { return uint64_t(1) << (bits - 1); }
  uint64_t infinity() const {
    return ((uint64_t(1) << (bits - 1 - mantissaBits)) - 1) << mantissaBits;
  }
  uint64_t largest() const {
    return hasInfinity ? infinity() - 1 : signBit() - (hasMinusZero ? 2 : 1);
  }
  uint64_t nan() const {
    if (!hasMinusZero)
      return signBit();
    return hasInfinity ? infinity() | uint64_t(1) << (mantissaBits - 1) : signBit() - 1;
  }
  bool isNan(uint64_t word) const {
    if (!hasMinusZero)
      return word == signBit();
    return hasInfinity ? (word & (signBit() - 1)) > infinity()
                       : (word & (signBit() - 1)) == signBit() - 1;
  }

  double decode(uint64_t word) const;
  /// Too large becomes infinity, or NaN without one; with `saturate` the largest number. A NaN is
  /// the format's own.
  uint64_t encode(double value, Rounding rounding = Rounding::NearestEven,
                  bool saturate = false) const;
  /// Half the distance of numbers like this one: what rounding to nearest may be off.
  double halfUlp(double value) const;

  /// Null for what is no float, or none of the language's.
  static const FloatFormat *of(mlir::Type type);
};

extern const FloatFormat f16Format, bf16Format, f32Format, f64Format;

/// a · b + c, such that rounding it to 32 bits or fewer gives what one rounding would: the sum is
/// rounded to odd. a · b must be exact in double.
double multiplyAddToOdd(double a, double b, double c);

} // namespace sectile::interpreter

#endif
