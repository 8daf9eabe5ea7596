// The standard library's functions of numbers, called on tiles: each is an error that names the
// function to write instead. Without these the compiler lists every overload that does not fit.
// The standard keeps namespace std to itself. These declarations match none of its types, and no
// program that compiles has called one.
#pragma once
#include <sectile/elementary.h>

// Only tiles match, so no program without the mistake sees these. They are less specialised than
// those of the language: after `using std::exp`, exp(tile) is still sectile::exp.
#define SECTILE_HOST_FUNCTION(name, instead)                                                       \
  template <class... A>                                                                            \
    requires sectile::detail::SomeTile<A...>                                                       \
  void name(const A &...) {                                                                        \
    static_assert(sectile::detail::always_false<A...>,                                             \
                  "std::" #name                                                                    \
                  " works on numbers of the host, not on traced values: write " instead);          \
  }
namespace std {
SECTILE_HOST_FUNCTION(abs, "sc::abs(x)")
SECTILE_HOST_FUNCTION(fabs, "sc::abs(x)")
SECTILE_HOST_FUNCTION(exp, "sc::exp(x)")
SECTILE_HOST_FUNCTION(exp2, "sc::exp2(x)")
SECTILE_HOST_FUNCTION(log, "sc::log(x)")
SECTILE_HOST_FUNCTION(log2, "sc::log2(x)")
SECTILE_HOST_FUNCTION(sin, "sc::sin(x)")
SECTILE_HOST_FUNCTION(cos, "sc::cos(x)")
SECTILE_HOST_FUNCTION(sqrt, "sc::sqrt(x)")
SECTILE_HOST_FUNCTION(tanh, "sc::tanh(x)")
SECTILE_HOST_FUNCTION(erf, "sc::erf(x)")
SECTILE_HOST_FUNCTION(floor, "sc::floor(x)")
SECTILE_HOST_FUNCTION(ceil, "sc::ceil(x)")
SECTILE_HOST_FUNCTION(round, "sc::round(x)")
SECTILE_HOST_FUNCTION(rint, "sc::rint(x)")
SECTILE_HOST_FUNCTION(nearbyint, "sc::rint(x)")
SECTILE_HOST_FUNCTION(tan, "sc::tan(x)")
SECTILE_HOST_FUNCTION(asin, "sc::asin(x)")
SECTILE_HOST_FUNCTION(acos, "sc::acos(x)")
SECTILE_HOST_FUNCTION(atan, "sc::atan(x)")
SECTILE_HOST_FUNCTION(sinh, "sc::sinh(x)")
SECTILE_HOST_FUNCTION(cosh, "sc::cosh(x)")
SECTILE_HOST_FUNCTION(asinh, "sc::asinh(x)")
SECTILE_HOST_FUNCTION(acosh, "sc::acosh(x)")
SECTILE_HOST_FUNCTION(atanh, "sc::atanh(x)")
SECTILE_HOST_FUNCTION(expm1, "sc::expm1(x)")
SECTILE_HOST_FUNCTION(log1p, "sc::log1p(x)")
SECTILE_HOST_FUNCTION(log10, "sc::log10(x)")
SECTILE_HOST_FUNCTION(cbrt, "sc::cbrt(x)")
SECTILE_HOST_FUNCTION(trunc, "sc::trunc(x)")
SECTILE_HOST_FUNCTION(isnan, "sc::isnan(x)")
SECTILE_HOST_FUNCTION(isinf, "sc::isinf(x)")
SECTILE_HOST_FUNCTION(isfinite, "sc::isfinite(x)")
SECTILE_HOST_FUNCTION(pow, "sc::pow(a, b)")
SECTILE_HOST_FUNCTION(atan2, "sc::atan2(a, b)")
SECTILE_HOST_FUNCTION(copysign, "sc::copysign(a, b)")
SECTILE_HOST_FUNCTION(fmod, "sc::fmod(a, b)")
SECTILE_HOST_FUNCTION(remainder, "sc::remainder(a, b)")
SECTILE_HOST_FUNCTION(ldexp, "sc::ldexp(x, n)")
SECTILE_HOST_FUNCTION(fma, "sc::fma(a, b, c)")
SECTILE_HOST_FUNCTION(max, "sc::maximum(a, b)")
SECTILE_HOST_FUNCTION(min, "sc::minimum(a, b)")
SECTILE_HOST_FUNCTION(fmax, "sc::maximum(a, b)")
SECTILE_HOST_FUNCTION(fmin, "sc::minimum(a, b)")
SECTILE_HOST_FUNCTION(clamp, "sc::clamp(x, low, high)")
} // namespace std
#undef SECTILE_HOST_FUNCTION
