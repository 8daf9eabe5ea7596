// The rest of the elementary functions of floats, element by element. On types below 32 bits they
// are computed in float32 and rounded once. docs/compiler.md lists their errors.
#pragma once
#include <sectile/math.h>

namespace sectile {

namespace detail {
enum class RealOp : std::uint8_t {
  trunc,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  asinh,
  acosh,
  atanh,
  expm1,
  log1p,
  log10,
  exp10,
  cbrt,
};
enum class RealOp2 : std::uint8_t { pow, atan2, copysign, fmod, remainder };
enum class RealTest : std::uint8_t { isnan, isinf, isfinite };

Value real(RealOp op, Kind kind, const Value &x, Location where);
Value real2(RealOp2 op, Kind kind, const Operand &a, const Operand &b, Location where);
Value realTest(RealTest test, Kind kind, const Value &x, Location where);
Value scaleByPower(Kind kind, const Operand &x, const Operand &exponent, Location where);
} // namespace detail

#define SECTILE_FUNCTION(name)                                                                     \
  template <detail::FloatElement T>                                                                \
  Tile<T> name(const Tile<T> &x, detail::Location where = detail::Location::current()) {           \
    return Tile<T>(detail::real(detail::RealOp::name, detail::kindOf<T>(), x.handle(), where));    \
  }
SECTILE_FUNCTION(trunc) // toward zero
SECTILE_FUNCTION(tan)
SECTILE_FUNCTION(asin)
SECTILE_FUNCTION(acos)
SECTILE_FUNCTION(atan)
SECTILE_FUNCTION(sinh)
SECTILE_FUNCTION(cosh)
SECTILE_FUNCTION(asinh)
SECTILE_FUNCTION(acosh)
SECTILE_FUNCTION(atanh)
SECTILE_FUNCTION(expm1) // exp(x) - 1
SECTILE_FUNCTION(log1p) // log(1 + x)
SECTILE_FUNCTION(log10)
SECTILE_FUNCTION(exp10)
SECTILE_FUNCTION(cbrt)
#undef SECTILE_FUNCTION

#define SECTILE_FUNCTION(name)                                                                     \
  template <class A, class B>                                                                      \
    requires detail::SomeTile<A, B>                                                                \
  detail::Result<A, B> name(const A &a, const B &b,                                                \
                            detail::Location where = detail::Location::current()) {                \
    using R = detail::Result<A, B>;                                                                \
    return R(                                                                                      \
        detail::real2(detail::RealOp2::name, R::element_kind, {a, where}, {b, where}, where));     \
  }
SECTILE_FUNCTION(pow)       // a to the power of b, as C's
SECTILE_FUNCTION(atan2)     // the angle of the point (b, a)
SECTILE_FUNCTION(copysign)  // the magnitude of a with the sign of b
SECTILE_FUNCTION(fmod)      // a less the multiple of b toward zero, as a % b: exact
SECTILE_FUNCTION(remainder) // a less the nearest multiple of b, the even one of two: exact
#undef SECTILE_FUNCTION

#define SECTILE_FUNCTION(name)                                                                     \
  template <detail::FloatElement T>                                                                \
  Tile<bool> name(const Tile<T> &x, detail::Location where = detail::Location::current()) {        \
    return Tile<bool>(                                                                             \
        detail::realTest(detail::RealTest::name, detail::kindOf<T>(), x.handle(), where));         \
  }
SECTILE_FUNCTION(isnan)
SECTILE_FUNCTION(isinf)
SECTILE_FUNCTION(isfinite)
#undef SECTILE_FUNCTION

// x · 2^exponent, rounded once; the exponent is an integer of at most 32 bits.
template <detail::FloatElement T>
Tile<T> ldexp(const Tile<T> &x, detail::Operand exponent,
              detail::Location where = detail::Location::current()) {
  return Tile<T>(detail::scaleByPower(detail::kindOf<T>(), {x, where}, exponent, where));
}

} // namespace sectile
