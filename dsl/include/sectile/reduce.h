// Reductions along axes, with any associative combiner.
#pragma once
#include <sectile/math.h>
#include <sectile/shape.h>
#include <tuple>
#include <vector>

namespace sectile {

// Which of several equal elements an argmax or argmin finds.
enum class Tie : std::uint8_t { first, last };

namespace detail {
// Several axes of a tile, or one.
class Axes {
public:
  template <std::integral I>
  Axes(I axis, Location where = Location::current())
      : where(where), numbers{static_cast<std::int64_t>(axis)} {}
  Axes(std::initializer_list<int> axes, Location where = Location::current())
      : where(where), numbers(axes.begin(), axes.end()) {}
  template <class T> Axes(const Tile<T> &) {
    static_assert(always_false<T>, "an axis is a number of the host, not a traced one");
  }

  Location where;
  std::vector<std::int64_t> numbers;
};
// Each once and counted from 0, the last first; all of a tile's for `nothing`.
std::vector<int> axesOf(const Value &value, const Axes &axes);
std::vector<int> allAxes(const Value &value, Location where);

// A combiner without its type: two numbers per tile in, all of the left, then all of the right; one
// per tile out.
struct Combiner {
  void *object;
  void (*call)(void *object, const Value *in, Value *out);
  bool ours; // its lines are the library's: those of the call count
};
enum class Combining : std::uint8_t { reduce, scan, scan_reverse };
void combine(Combining how, std::span<const Value *const> sources, const Extent &axis,
             const Combiner &combiner, Value *results);

template <class T, class F>
Tile<T> combineOne(Combining how, const Tile<T> &x, const Extent &axis, F combiner, bool ours) {
  Value result;
  const Value *sources[] = {&x.handle()};
  detail::combine(how, sources, axis,
                  {&combiner,
                   [](void *object, const Value *in, Value *out) {
                     const Tile<T> combined =
                         (*static_cast<F *>(object))(Tile<T>(in[0]), Tile<T>(in[1]));
                     out[0] = combined.handle();
                   },
                   ours},
                  &result);
  return Tile<T>(result);
}

template <class... T, class F>
std::tuple<Tile<T>...> combineSeveral(Combining how, const std::tuple<Tile<T>...> &x,
                                      const Extent &axis, F combiner, bool ours) {
  using Tuple = std::tuple<Tile<T>...>;
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    const Value *sources[] = {&std::get<I>(x).handle()...};
    Value results[sizeof...(I)];
    detail::combine(how, sources, axis,
                    {&combiner,
                     [](void *object, const Value *in, Value *out) {
                       const Tuple combined = (*static_cast<F *>(object))(
                           std::tuple_element_t<I, Tuple>(in[I])...,
                           std::tuple_element_t<I, Tuple>(in[sizeof...(I) + I])...);
                       ((out[I] = std::get<I>(combined).handle()), ...);
                     },
                     ours},
                    results);
    return Tuple(std::tuple_element_t<I, Tuple>(results[I])...);
  }(std::make_index_sequence<sizeof...(T)>{});
}

template <class T, class F>
Tile<T> reduceAxes(const Tile<T> &x, const std::vector<int> &axes, Location where, F combiner,
                   bool ours) {
  Tile<T> result = x;
  for (int axis : axes)
    result = combineOne(Combining::reduce, result, Extent(axis, where), combiner, ours);
  return result;
}
template <class T, class F> Tile<T> reduceOurs(const Tile<T> &x, const Axes &axes, F combiner) {
  return reduceAxes(x, axesOf(x.handle(), axes), axes.where, combiner, true);
}
template <class T, class F> Tile<T> reduceOurs(const Tile<T> &x, Location where, F combiner) {
  return reduceAxes(x, allAxes(x.handle(), where), where, combiner, true);
}
} // namespace detail

// combiner(left, right) takes and returns one number each; it must be associative and use nothing
// but its parameters. An axis, or several as in {0, 2}; -1 is the last. A tile of which no axis is
// left is a number.
template <class T, class F> Tile<T> reduce(const Tile<T> &x, detail::Axes axes, F combiner) {
  static_assert(
      std::is_invocable_r_v<Tile<T>, F &, Tile<T>, Tile<T>>,
      "the combiner of sc::reduce takes two numbers of the tile's type and returns one, as "
      "in [](auto a, auto b) { return a + b; }");
  return detail::reduceAxes(x, detail::axesOf(x.handle(), axes), axes.where, combiner, false);
}

// Several tiles of one shape at once: combiner(left..., right...) returns a std::tuple.
template <class... T, class F>
std::tuple<Tile<T>...> reduce(const std::tuple<Tile<T>...> &x, detail::Axes axes, F combiner) {
  static_assert(
      std::is_invocable_r_v<std::tuple<Tile<T>...>, F &, Tile<T>..., Tile<T>...>,
      "the combiner of sc::reduce takes two numbers per tile, all of the left and then all "
      "of the right, and returns a std::tuple of one per tile");
  std::tuple<Tile<T>...> result = x;
  for (int axis : detail::axesOf(std::get<0>(x).handle(), axes))
    result = detail::combineSeveral(detail::Combining::reduce, result,
                                    detail::Extent(axis, axes.where), combiner, false);
  return result;
}

namespace detail {
// What a sum of elements is computed in, and is: floats keep their type, but add up in float32;
// integers below 32 bits and bools (counted) give 32 bits.
template <class T> constexpr auto sumBox() {
  if constexpr (isFloat(kindOf<T>()))
    return TypeBox<T>{};
  else if constexpr (bitsOf(kindOf<T>()) >= 32)
    return TypeBox<T>{};
  else if constexpr (isUnsigned(kindOf<T>()))
    return TypeBox<std::uint32_t>{};
  else
    return TypeBox<std::int32_t>{};
}
template <class T> using Sum = typename decltype(sumBox<T>())::type;
template <class T>
using Wide = std::conditional_t<FloatElement<T> && bitsOf(kindOf<T>()) < 32, float, Sum<T>>;

// `where` is the axes, or where the call without any is.
inline Location lineOf(const Axes &axes) { return axes.where; }
inline Location lineOf(Location where) { return where; }

template <class T, class A, class F> Tile<Sum<T>> reduceWide(const Tile<T> &x, A axes, F combiner) {
  const Location where = lineOf(axes);
  return cast<Sum<T>>(reduceOurs(cast<Wide<T>>(x, where), axes, combiner), where);
}
template <class T, class A> Tile<Sum<T>> sumOf(const Tile<T> &x, A axes) {
  return reduceWide(x, axes, [](auto a, auto b) { return a + b; });
}
template <class T, class A> Tile<Sum<T>> prodOf(const Tile<T> &x, A axes) {
  return reduceWide(x, axes, [](auto a, auto b) { return a * b; });
}
template <class T, class A> Tile<T> xor_sumOf(const Tile<T> &x, A axes) {
  static_assert(isInteger(kindOf<T>()) || isBool(kindOf<T>()),
                "sc::xor_sum works on bits: use integers, or sc::bitcast");
  return reduceOurs(x, axes, [](auto a, auto b) { return a ^ b; });
}
template <class T, class A> Tile<T> maxOf(const Tile<T> &x, A axes, Nan nan = Nan::ignore) {
  return reduceOurs(x, axes, [nan](auto a, auto b) { return maximum(a, b, nan); });
}
template <class T, class A> Tile<T> minOf(const Tile<T> &x, A axes, Nan nan = Nan::ignore) {
  return reduceOurs(x, axes, [nan](auto a, auto b) { return minimum(a, b, nan); });
}
} // namespace detail

// Each along axes, or of all elements.
#define SECTILE_REDUCTION_FUNCTION(name, Result)                                                   \
  template <class T> Tile<Result> name(const Tile<T> &x, detail::Axes axes) {                      \
    return detail::name##Of(x, axes);                                                              \
  }                                                                                                \
  template <class T>                                                                               \
  Tile<Result> name(const Tile<T> &x, detail::Location where = detail::Location::current()) {      \
    return detail::name##Of(x, where);                                                             \
  }
SECTILE_REDUCTION_FUNCTION(sum, detail::Sum<T>)
SECTILE_REDUCTION_FUNCTION(prod, detail::Sum<T>)
SECTILE_REDUCTION_FUNCTION(xor_sum, T)
#undef SECTILE_REDUCTION_FUNCTION

template <class T> Tile<T> max(const Tile<T> &x, detail::Axes axes, Nan nan = Nan::ignore) {
  return detail::maxOf(x, axes, nan);
}
template <class T>
Tile<T> max(const Tile<T> &x, detail::Location where = detail::Location::current()) {
  return detail::maxOf(x, where);
}
template <class T> Tile<T> min(const Tile<T> &x, detail::Axes axes, Nan nan = Nan::ignore) {
  return detail::minOf(x, axes, nan);
}
template <class T>
Tile<T> min(const Tile<T> &x, detail::Location where = detail::Location::current()) {
  return detail::minOf(x, where);
}

// Not of the language: two numbers are compared by other names.
#define SECTILE_NOT_OF_TWO(name, other)                                                            \
  template <class T, class U>                                                                      \
    requires(std::floating_point<U> || std::same_as<U, Tile<typename U::value_type>>)              \
  __attribute__((unavailable("it reduces a tile along axes: write " other))) Tile<T> name(         \
      const Tile<T> &x, const U &) {                                                               \
    return x;                                                                                      \
  }                                                                                                \
  template <detail::Number A, class T>                                                             \
  __attribute__((unavailable("it reduces a tile along axes: write " other))) Tile<T> name(         \
      A, const Tile<T> &x) {                                                                       \
    return x;                                                                                      \
  }
SECTILE_NOT_OF_TWO(max, "sc::maximum(a, b)")
SECTILE_NOT_OF_TWO(min, "sc::minimum(a, b)")
#undef SECTILE_NOT_OF_TWO

// Whether some element, or every element, holds.
inline Tile<bool> any(const Tile<bool> &x, detail::Axes axes) {
  return detail::reduceOurs(x, axes, [](auto a, auto b) { return a || b; });
}
inline Tile<bool> any(const Tile<bool> &x, detail::Location where = detail::Location::current()) {
  return detail::reduceOurs(x, where, [](auto a, auto b) { return a || b; });
}
inline Tile<bool> all(const Tile<bool> &x, detail::Axes axes) {
  return detail::reduceOurs(x, axes, [](auto a, auto b) { return a && b; });
}
inline Tile<bool> all(const Tile<bool> &x, detail::Location where = detail::Location::current()) {
  return detail::reduceOurs(x, where, [](auto a, auto b) { return a && b; });
}

namespace detail {
Value positions(const Value &like, const Extent &axis); // of each element along an axis, i32

// The better of two elements by the comparison, and where it is.
template <class T, class Better>
std::tuple<Tile<T>, Tile<std::int32_t>> best(const Tile<T> &x, const Extent &axis, Nan nan, Tie tie,
                                             Better better) {
  const Tile<std::int32_t> at(positions(x.handle(), axis));
  return combineSeveral(
      Combining::reduce, std::tuple(x, at), axis,
      [=](Tile<T> a, Tile<std::int32_t> i, Tile<T> b, Tile<std::int32_t> j) {
        Tile<bool> wins = better(a, b), equal = a == b;
        if constexpr (FloatElement<T>) {
          const Tile<bool> aIsNan = a != a, bIsNan = b != b;
          wins = wins || (nan == Nan::ignore ? bIsNan && !aIsNan : aIsNan && !bIsNan);
          equal = equal || (aIsNan && bIsNan);
        }
        const Tile<bool> left = wins || (equal && (tie == Tie::first ? i < j : i > j));
        const Tile<T> element = sectile::where(left, a, b);
        return std::tuple(element, sectile::where(left, i, j));
      },
      true);
}
} // namespace detail

// The largest (smallest) element along an axis, and where it is: the first of equals, or the last.
// A NaN is found only among NaNs, or, with Nan::propagate, before all others.
template <class T>
std::tuple<Tile<T>, Tile<std::int32_t>>
max_with_index(const Tile<T> &x, detail::Extent axis, Nan nan = Nan::ignore, Tie tie = Tie::first) {
  return detail::best(x, axis, nan, tie, [](auto a, auto b) { return a > b; });
}
template <class T>
std::tuple<Tile<T>, Tile<std::int32_t>>
min_with_index(const Tile<T> &x, detail::Extent axis, Nan nan = Nan::ignore, Tie tie = Tie::first) {
  return detail::best(x, axis, nan, tie, [](auto a, auto b) { return a < b; });
}
template <class T>
Tile<std::int32_t> argmax(const Tile<T> &x, detail::Extent axis, Nan nan = Nan::ignore,
                          Tie tie = Tie::first) {
  return std::get<1>(max_with_index(x, axis, nan, tie));
}
template <class T>
Tile<std::int32_t> argmin(const Tile<T> &x, detail::Extent axis, Nan nan = Nan::ignore,
                          Tie tie = Tie::first) {
  return std::get<1>(min_with_index(x, axis, nan, tie));
}

} // namespace sectile
