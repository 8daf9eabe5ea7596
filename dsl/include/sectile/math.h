// Mathematics element by element: functions, choices, conversions.
#pragma once
#include <sectile/tile.h>

namespace sectile {

// What minimum and maximum do with a NaN beside a number: give the number, or the NaN.
enum class Nan : std::uint8_t { ignore, propagate };

namespace detail {

enum class MathOp : std::uint8_t {
  abs,
  exp,
  exp2,
  log,
  log2,
  sin,
  cos,
  sqrt,
  rsqrt,
  tanh,
  erf,
  floor,
  ceil,
  round,
  rint,
};

Value math(MathOp op, Kind kind, const Value &x, Location where);
Value minMax(bool maximum, Kind kind, const Operand &a, const Operand &b, Nan nan, Location where);
Value multiplyAdd(Kind kind, const Operand &a, const Operand &b, const Operand &c, Location where);
Value select(Kind kind, const Operand &condition, const Operand &a, const Operand &b,
             Location where);
Value ceilDiv(Kind kind, const Operand &a, const Operand &b, Location where);
Value bitcast(Kind from, Kind to, const Value &x, Location where);

// The element type of an operation on operands of these types; literals follow the tiles.
template <class A> struct OperandElement {
  static_assert(Number<A>, "an operand is a tile or a number");
  using type = void;
};
template <class T> struct OperandElement<Tile<T>> {
  using type = T;
};
template <class A, class B> constexpr auto joined() {
  if constexpr (std::is_void_v<A>)
    return TypeBox<B>{};
  else if constexpr (std::is_void_v<B>)
    return TypeBox<A>{};
  else
    return TypeBox<Promoted<A, B>>{};
}
template <class A, class B> using Joined = typename decltype(joined<A, B>())::type;
template <class... A> struct ResultOf {
  using type = void;
};
template <class A, class... Rest> struct ResultOf<A, Rest...> {
  using type = Joined<typename OperandElement<A>::type, typename ResultOf<Rest...>::type>;
};
template <class... A> constexpr auto resultOf() {
  using T = typename ResultOf<A...>::type;
  static_assert(!std::is_void_v<T>,
                "one operand at least is a tile: sc::full<T>(number) makes one of a number");
  return TypeBox<T>{};
}
template <class... A> using Result = Tile<typename decltype(resultOf<A...>())::type>;

template <class A, class B> constexpr auto choice() {
  if constexpr (Number<A> && Number<B>) {
    static_assert(Element<A> && Element<B>, "no tile has elements of this type");
    return TypeBox<Tile<Promoted<A, B>>>{};
  } else {
    return TypeBox<Result<A, B>>{};
  }
}
template <class A, class B> using Choice = typename decltype(choice<A, B>())::type;

template <class T>
concept FloatElement = isFloat(kindOf<T>());

template <class A>
concept TileOrNumber = Number<A> || requires(const A &a) { []<class T>(const Tile<T> &) {}(a); };
template <class... A>
concept SomeTile = (TileOrNumber<A> && ...) && !(Number<A> && ...);

} // namespace detail

// Functions of floats. On types below 32 bits they are computed in float32 and rounded once.
#define SECTILE_FUNCTION(name)                                                                     \
  template <detail::FloatElement T>                                                                \
  Tile<T> name(const Tile<T> &x, detail::Location where = detail::Location::current()) {           \
    return Tile<T>(detail::math(detail::MathOp::name, detail::kindOf<T>(), x.handle(), where));    \
  }
SECTILE_FUNCTION(exp)
SECTILE_FUNCTION(exp2)
SECTILE_FUNCTION(log)
SECTILE_FUNCTION(log2)
SECTILE_FUNCTION(sin)
SECTILE_FUNCTION(cos)
SECTILE_FUNCTION(sqrt)
SECTILE_FUNCTION(rsqrt) // 1 / sqrt(x)
SECTILE_FUNCTION(tanh)
SECTILE_FUNCTION(erf)
SECTILE_FUNCTION(floor)
SECTILE_FUNCTION(ceil)
SECTILE_FUNCTION(round) // halves away from zero
SECTILE_FUNCTION(rint)  // halves to even
#undef SECTILE_FUNCTION

template <class T>
Tile<T> abs(const Tile<T> &x, detail::Location where = detail::Location::current()) {
  return Tile<T>(detail::math(detail::MathOp::abs, detail::kindOf<T>(), x.handle(), where));
}

// 1 / (1 + exp(-x)), without overflow.
template <detail::FloatElement T>
Tile<T> sigmoid(const Tile<T> &x, detail::Location where = detail::Location::current()) {
  using Wide = std::conditional_t<std::same_as<T, double>, double, float>;
  auto value = [&](const detail::Value &wide) {
    Tile<Wide> e = exp(Tile<Wide>(detail::unary(detail::UnaryOp::neg, detail::kindOf<Wide>(),
                                                detail::Operand(Tile<Wide>(wide), where))),
                       where);
    constexpr detail::Kind kind = detail::kindOf<Wide>();
    Tile<Wide> sum(detail::binary(detail::BinaryOp::add, kind, {e, where}, {1, where}));
    return detail::binary(detail::BinaryOp::div, kind, {1, where}, {sum, where});
  };
  return Tile<T>(detail::cast(
      detail::kindOf<Wide>(), detail::kindOf<T>(),
      value(detail::cast(detail::kindOf<T>(), detail::kindOf<Wide>(), x.handle(), where)), where));
}

template <class A, class B>
detail::Result<A, B> minimum(const A &a, const B &b, Nan nan = Nan::ignore,
                             detail::Location where = detail::Location::current()) {
  using R = detail::Result<A, B>;
  return R(detail::minMax(false, R::element_kind, {a, where}, {b, where}, nan, where));
}
template <class A, class B>
detail::Result<A, B> maximum(const A &a, const B &b, Nan nan = Nan::ignore,
                             detail::Location where = detail::Location::current()) {
  using R = detail::Result<A, B>;
  return R(detail::minMax(true, R::element_kind, {a, where}, {b, where}, nan, where));
}
// x, but at least low and at most high.
template <class T, class L, class H>
detail::Result<Tile<T>, L, H> clamp(const Tile<T> &x, const L &low, const H &high,
                                    Nan nan = Nan::ignore,
                                    detail::Location where = detail::Location::current()) {
  return minimum(maximum(x, low, nan, where), high, nan, where);
}

// a * b + c; of floats, rounded once.
template <class A, class B, class C>
  requires detail::SomeTile<A, B, C>
detail::Result<A, B, C> fma(const A &a, const B &b, const C &c,
                            detail::Location where = detail::Location::current()) {
  using R = detail::Result<A, B, C>;
  return R(detail::multiplyAdd(R::element_kind, {a, where}, {b, where}, {c, where}, where));
}

// Element by element: a where the condition holds, else b. Both are computed. Two numbers have the
// type of two tiles of their types: where(condition, 1, 0) is a Tile<int>.
template <class A, class B>
detail::Choice<A, B> where(detail::Operand condition, const A &a, const B &b,
                           detail::Location where = detail::Location::current()) {
  using R = detail::Choice<A, B>;
  return R(detail::select(R::element_kind, condition, {a, where}, {b, where}, where));
}

// ⌈a / b⌉ of integers that are not negative.
template <std::integral A, std::integral B> constexpr std::common_type_t<A, B> cdiv(A a, B b) {
  using I = std::common_type_t<A, B>;
  return static_cast<I>(a) / static_cast<I>(b) + (static_cast<I>(a) % static_cast<I>(b) != 0);
}
// Compilers before clang 21 form the type before they look at the constraint, of two numbers, too.
template <class A, class B>
  requires detail::SomeTile<A, B>
detail::Choice<A, B> cdiv(const A &a, const B &b,
                          detail::Location where = detail::Location::current()) {
  using R = detail::Result<A, B>;
  return R(detail::ceilDiv(R::element_kind, {a, where}, {b, where}, where));
}

// To another element type: floats round to nearest even, a float goes to an integer toward zero, an
// integer wraps, a bool is 0 or 1, to bool is "not zero".
template <class T, class U>
  requires detail::TileElement<T>
Tile<T> cast(const Tile<U> &x, detail::Location where = detail::Location::current()) {
  return Tile<T>(detail::cast(detail::kindOf<U>(), detail::kindOf<T>(), x.handle(), where));
}
// The same bits as another element type of the same size.
template <Element T, Element U>
Tile<T> bitcast(const Tile<U> &x, detail::Location where = detail::Location::current()) {
  static_assert(size_of(dtype_of<T>) == size_of(dtype_of<U>) &&
                    std::same_as<T, bool> == std::same_as<U, bool>,
                "sc::bitcast keeps the size of the elements, and bools have no bits: "
                "sc::cast converts");
  return Tile<T>(detail::bitcast(detail::kindOf<U>(), detail::kindOf<T>(), x.handle(), where));
}

} // namespace sectile
