// Functions with fewer digits and fewer instructions than those of math.h: where what becomes of
// their results is rounded to 16 bits.
#pragma once
#include <sectile/math.h>

namespace sectile {

namespace detail {
Value fastExp(const Value &x, Location where);
Value fastDivide(const Operand &x, const Operand &y, Location where);
} // namespace detail

// e^x, to 2 + 1.5 |x| units of the last place; 0 where that is no normal number.
inline Tile<float> fast_exp(const Tile<float> &x,
                            detail::Location where = detail::Location::current()) {
  return Tile<float>(detail::fastExp(x.handle(), where));
}

// x / y, to 3 units of the last place where 1 / y is a normal number; x times 0 for larger y.
template <class A, class B>
  requires std::same_as<detail::Result<A, B>, Tile<float>>
Tile<float> fast_divide(const A &x, const B &y,
                        detail::Location where = detail::Location::current()) {
  return Tile<float>(detail::fastDivide({x, where}, {y, where}, where));
}

} // namespace sectile
