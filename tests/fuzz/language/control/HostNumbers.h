// Numbers and tiles of the language on the host. What docs/language.md says of types, promotion,
// conversions and operators stands here once more, apart from the compiler and the interpreter:
// text that is written for tiles means the same on these.
#pragma once
#include "tests/fuzz/language/Cases.h"
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <sectile/sectile.h>
#include <stdexcept>
#include <vector>

namespace sectile::fuzz::control {

/// Elements of every tile.
inline constexpr int width = 32;

/// A mistake that is made on purpose.
inline HostSlip hostSlip = HostSlip::None;

template <class T> inline constexpr bool isIndex = std::same_as<T, Index>;
template <class T> inline constexpr bool isReal = std::floating_point<T> || std::same_as<T, half>;
template <class T> inline constexpr bool isBool = std::same_as<T, bool>;
template <class T> inline constexpr bool isWhole = !isReal<T> && !isBool<T>;

template <class T> struct TypeBox {
  using type = T;
};
template <class T> constexpr auto storedBox() {
  if constexpr (isIndex<T>)
    return TypeBox<std::int64_t>{};
  else
    return TypeBox<T>{};
}
template <class T> using Stored = typename decltype(storedBox<T>())::type;
/// The fewest that T has.
template <class T> inline constexpr int bitsOf = isIndex<T> ? 32 : 8 * int(sizeof(Stored<T>));

template <class A, class B> constexpr auto jointBox() {
  using Wider = std::conditional_t<(bitsOf<A> < bitsOf<B>), B, A>;
  if constexpr (isReal<A> != isReal<B>)
    return TypeBox<std::conditional_t<isReal<A>, A, B>>{};
  else if constexpr (isReal<A>)
    return TypeBox<Wider>{};
  else if constexpr (isBool<A> || isBool<B>)
    return TypeBox<std::conditional_t<isBool<A>, B, A>>{};
  else if constexpr (isIndex<A> || isIndex<B>)
    return TypeBox<std::conditional_t<bitsOf<Wider> == 64, Wider, Index>>{};
  else if constexpr (bitsOf<A> != bitsOf<B>)
    return TypeBox<Wider>{};
  else
    return TypeBox<std::conditional_t<std::is_unsigned_v<A>, A, B>>{};
}
/// The type of a ∘ b.
template <class A, class B> using Joint = typename decltype(jointBox<A, B>())::type;

/// An Int that leaves 32 bits has no meaning that all launches share.
inline std::int64_t fitting(std::int64_t number) {
  if (number < -(std::int64_t{1} << 31) || number >= std::int64_t{1} << 31)
    throw std::logic_error("the draw lets an Int leave its range");
  return number;
}

template <class T> Stored<T> rounded(double exact) { return T(exact); }

/// T of U's number.
template <class T, class U> Stored<T> converted(Stored<U> x) {
  if constexpr (isBool<T>) {
    return x != Stored<U>(0);
  } else if constexpr (isReal<T>) {
    // A double is exact for every integer that does not overflow a half.
    if constexpr (std::same_as<T, half>)
      return half(double(x));
    else
      return T(x);
  } else if constexpr (isReal<U>) {
    using Limits = std::numeric_limits<Stored<T>>;
    const double number = hostSlip == HostSlip::RoundedCast ? std::rint(double(x)) : double(x);
    if (std::isnan(number))
      return 0;
    if (number >= std::ldexp(1.0, Limits::digits))
      return Limits::max();
    return number <= double(Limits::min()) ? Limits::min() : Stored<T>(number);
  } else {
    return Stored<T>(x);
  }
}

/// One number, or a tile of them.
template <class T> struct Host {
  std::array<Stored<T>, width> elements{};
  bool isTile = false;

  Host() = default;
  Host(Stored<T> number) { elements[0] = number; }
  Stored<T> operator[](int i) const { return elements[std::size_t(isTile ? i : 0)]; }
};

template <class R, class F, class... X> Host<R> each(F f, const Host<X> &...x) {
  Host<R> result;
  result.isTile = (x.isTile || ...);
  for (int i = 0; i < (result.isTile ? width : 1); ++i)
    result.elements[std::size_t(i)] = f(x[i]...);
  return result;
}

template <class T, class U> Host<T> cast(const Host<U> &x) {
  return each<T>([](Stored<U> a) { return converted<T, U>(a); }, x);
}

//===-- Single numbers ------------------------------------------------------------------------===//

/// f of both numbers, which integers compute without an end to their bits.
template <class T, class F> Stored<T> exactly(F f, Stored<T> a, Stored<T> b) {
  if constexpr (isIndex<T>)
    return fitting(f(a, b));
  else if constexpr (std::same_as<T, half>)
    return half(f(double(a), double(b)));
  else if constexpr (isReal<T>)
    return f(a, b);
  else
    return T(f(std::uint64_t(a), std::uint64_t(b)));
}

template <class T> Stored<T> quotient(Stored<T> a, Stored<T> b) {
  if constexpr (isReal<T>) {
    return exactly<T>([](auto x, auto y) { return x / y; }, a, b);
  } else {
    if (b == 0)
      throw std::logic_error("the draw divides by zero");
    if constexpr (std::is_signed_v<Stored<T>>)
      if (b == -1)
        return Stored<T>(-std::uint64_t(a));
    return Stored<T>(a / b);
  }
}
template <class T> Stored<T> rest(Stored<T> a, Stored<T> b) {
  if constexpr (isReal<T>) {
    return exactly<T>([](auto x, auto y) { return std::fmod(x, y); }, a, b);
  } else {
    if constexpr (std::is_signed_v<Stored<T>>)
      if (b == -1)
        return 0;
    const auto result = Stored<T>(a % b);
    return hostSlip == HostSlip::PositiveRest && result < 0 ? Stored<T>(-result) : result;
  }
}
template <class T> Stored<T> lesser(Stored<T> a, Stored<T> b, bool greater) {
  if constexpr (isReal<T>) {
    if (std::isnan(float(a)) || std::isnan(float(b)))
      return std::isnan(float(a)) ? b : a;
    if (a == b)
      return std::signbit(float(a)) != greater ? a : b;
  }
  return (a < b) != greater ? a : b;
}
template <class T> Stored<T> shiftedRight(Stored<T> a, Stored<T> by) {
  if constexpr (!isIndex<T>)
    if (hostSlip == HostSlip::UnsignedShift)
      return T(std::make_unsigned_t<T>(a) >> by);
  return Stored<T>(a >> by);
}

//===-- Operators and functions ---------------------------------------------------------------===//

/// f<T> of both operands as numbers of T.
template <class T, class R = T, class A, class B, class F>
Host<R> joined(F f, const Host<A> &a, const Host<B> &b) {
  return each<R>([&](Stored<T> x, Stored<T> y) { return f(x, y); }, cast<T>(a), cast<T>(b));
}

#define SECTILE_HOST_OPERATOR(symbol, expression)                                                  \
  template <class A, class B>                                                                      \
  Host<Joint<A, B>> operator symbol(const Host<A> &a, const Host<B> &b) {                          \
    using T = Joint<A, B>;                                                                         \
    return joined<T>([](Stored<T> x, Stored<T> y) -> Stored<T> { return expression; }, a, b);      \
  }                                                                                                \
  template <class A, class B> Host<A> &operator symbol## = (Host<A> & a, const Host<B> &b) {       \
    return a = a symbol b;                                                                         \
  }
SECTILE_HOST_OPERATOR(+, exactly<T>([](auto p, auto q) { return p + q; }, x, y))
SECTILE_HOST_OPERATOR(-, exactly<T>([](auto p, auto q) { return p - q; }, x, y))
SECTILE_HOST_OPERATOR(*, exactly<T>([](auto p, auto q) { return p * q; }, x, y))
SECTILE_HOST_OPERATOR(/, quotient<T>(x, y))
SECTILE_HOST_OPERATOR(%, rest<T>(x, y))
SECTILE_HOST_OPERATOR(&, Stored<T>(x &y))
SECTILE_HOST_OPERATOR(|, Stored<T>(x | y))
SECTILE_HOST_OPERATOR(^, Stored<T>(x ^ y))
SECTILE_HOST_OPERATOR(<<, Stored<T>(std::uint64_t(x) << y))
SECTILE_HOST_OPERATOR(>>, shiftedRight<T>(x, y))
#undef SECTILE_HOST_OPERATOR

#define SECTILE_HOST_COMPARISON(symbol, expression)                                                \
  template <class A, class B> Host<bool> operator symbol(const Host<A> &a, const Host<B> &b) {     \
    using T = Joint<A, B>;                                                                         \
    return joined<T, bool>([](Stored<T> x, Stored<T> y) { return expression; }, a, b);             \
  }
SECTILE_HOST_COMPARISON(==, x == y)
SECTILE_HOST_COMPARISON(!=, x != y)
SECTILE_HOST_COMPARISON(<, hostSlip == HostSlip::LessForLessOrEqual ? x <= y : x < y)
SECTILE_HOST_COMPARISON(<=, x <= y)
#undef SECTILE_HOST_COMPARISON

inline Host<bool> operator&&(const Host<bool> &a, const Host<bool> &b) { return a & b; }
inline Host<bool> operator||(const Host<bool> &a, const Host<bool> &b) { return a | b; }
inline Host<bool> operator!(const Host<bool> &a) {
  return each<bool>([](bool x) { return !x; }, a);
}
template <class T> Host<T> operator~(const Host<T> &a) {
  return each<T>([](Stored<T> x) { return Stored<T>(~x); }, a);
}
template <class T> Host<T> operator-(const Host<T> &a) {
  return each<T>(
      [](Stored<T> x) {
        if constexpr (isReal<T>)
          return T(-x);
        else
          return Stored<T>(-std::uint64_t(x));
      },
      a);
}
template <class T> Host<T> abs(const Host<T> &a) {
  return each<T>(
      [](Stored<T> x) {
        if constexpr (isReal<T>)
          return T(std::fabs(x));
        else
          return x < 0 ? Stored<T>(-std::uint64_t(x)) : x;
      },
      a);
}

#define SECTILE_HOST_FUNCTION(name)                                                                \
  template <class T> Host<T> name(const Host<T> &a) {                                              \
    return each<T>([](T x) { return T(std::name(x)); }, a);                                        \
  }
SECTILE_HOST_FUNCTION(floor)
SECTILE_HOST_FUNCTION(ceil)
SECTILE_HOST_FUNCTION(trunc)
SECTILE_HOST_FUNCTION(round)
SECTILE_HOST_FUNCTION(rint)
#undef SECTILE_HOST_FUNCTION
template <class T> Host<T> sqrt(const Host<T> &a) {
  return each<T>(
      [](T x) {
        // Of a half's 11 bits a double's root rounds to what the exact one does.
        if constexpr (std::same_as<T, half>)
          return half(std::sqrt(double(x)));
        else
          return std::sqrt(x);
      },
      a);
}
template <class T> Host<bool> isnan(const Host<T> &a) {
  return each<bool>([](T x) { return std::isnan(x); }, a);
}

template <class A, class B> Host<Joint<A, B>> minimum(const Host<A> &a, const Host<B> &b) {
  using T = Joint<A, B>;
  return joined<T>([](Stored<T> x, Stored<T> y) { return lesser<T>(x, y, false); }, a, b);
}
template <class A, class B> Host<Joint<A, B>> maximum(const Host<A> &a, const Host<B> &b) {
  using T = Joint<A, B>;
  return joined<T>([](Stored<T> x, Stored<T> y) { return lesser<T>(x, y, true); }, a, b);
}
template <class A, class B>
Host<Joint<A, B>> where(const Host<bool> &holds, const Host<A> &a, const Host<B> &b) {
  using T = Joint<A, B>;
  return each<T>([](bool c, Stored<T> x, Stored<T> y) { return c ? x : y; }, holds, cast<T>(a),
                 cast<T>(b));
}
template <class T> Host<T> fma(const Host<T> &a, const Host<T> &b, const Host<T> &c) {
  if constexpr (isReal<T>)
    return each<T>([](T x, T y, T z) { return std::fma(x, y, z); }, a, b, c);
  else
    return a * b + c;
}
template <class T> Host<T> mulhi(const Host<T> &a, const Host<T> &b) {
  return each<T>(
      [](T x, T y) {
        using Twice = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
        return T((Twice(x) * Twice(y)) >> bitsOf<T>);
      },
      a, b);
}
template <class T> Host<std::int32_t> popcount(const Host<T> &a) {
  return each<std::int32_t>([](T x) { return std::popcount(std::make_unsigned_t<T>(x)); }, a);
}
template <class T> Host<std::int32_t> clz(const Host<T> &a) {
  return each<std::int32_t>([](T x) { return std::countl_zero(std::make_unsigned_t<T>(x)); }, a);
}

//===-- Reductions ----------------------------------------------------------------------------===//

template <class T, class F> Host<T> folded(const Host<T> &x, F f) {
  Host<T> result(x[0]);
  for (int i = 1; i < width; ++i)
    result = f(result, Host<T>(x[i]));
  return result;
}
template <class T> constexpr auto sumBox() {
  if constexpr (isIndex<T> || bitsOf<T> >= 32)
    return TypeBox<T>{};
  else
    return TypeBox<
        std::conditional_t<std::is_signed_v<T> || isBool<T>, std::int32_t, std::uint32_t>>{};
}
/// The type that integers are summed in.
template <class T> using SumOf = typename decltype(sumBox<T>())::type;
template <class T> Host<SumOf<T>> sum(const Host<T> &x, int) {
  return folded(cast<SumOf<T>>(x), [](auto a, auto b) { return a + b; });
}
template <class T> Host<T> xor_sum(const Host<T> &x, int) {
  return folded(x, [](auto a, auto b) { return a ^ b; });
}
template <class T> Host<T> max(const Host<T> &x, int) {
  return folded(x, [](auto a, auto b) { return control::maximum(a, b); });
}
template <class T> Host<T> min(const Host<T> &x, int) {
  return folded(x, [](auto a, auto b) { return control::minimum(a, b); });
}
inline Host<bool> any(const Host<bool> &x, int) {
  return folded(x, [](auto a, auto b) { return a | b; });
}
inline Host<bool> all(const Host<bool> &x, int) {
  return folded(x, [](auto a, auto b) { return a & b; });
}

} // namespace sectile::fuzz::control
