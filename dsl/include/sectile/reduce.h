// Reductions along an axis, with any associative combiner.
#pragma once
#include <sectile/math.h>
#include <sectile/shape.h>
#include <tuple>

namespace sectile {

namespace detail {
// A combiner without its type: two numbers per tile in, all of the left, then all of the right; one
// per tile out.
struct Combiner {
  void *object;
  void (*call)(void *object, const Value *in, Value *out);
  bool ours; // its lines are the library's: those of the call count
};
void reduce(std::span<const Value *const> sources, const Extent &axis, const Combiner &combiner,
            Value *results);
int rankOf(const Value &value, Location where);
} // namespace detail

namespace detail {
template <class T, class F>
Tile<T> reduceOne(const Tile<T> &x, const Extent &axis, F combiner, bool ours) {
  Value result;
  const Value *sources[] = {&x.handle()};
  detail::reduce(sources, axis,
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
std::tuple<Tile<T>...> reduceSeveral(const std::tuple<Tile<T>...> &x, const Extent &axis,
                                     F combiner, bool ours) {
  using Tuple = std::tuple<Tile<T>...>;
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    const Value *sources[] = {&std::get<I>(x).handle()...};
    Value results[sizeof...(I)];
    detail::reduce(sources, axis,
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
} // namespace detail

// combiner(left, right) takes and returns one number each; it must be associative and use nothing
// but its parameters. -1 is the last axis. A tile of rank 1 gives a number.
template <class T, class F> Tile<T> reduce(const Tile<T> &x, detail::Extent axis, F combiner) {
  static_assert(
      std::is_invocable_r_v<Tile<T>, F &, Tile<T>, Tile<T>>,
      "the combiner of sc::reduce takes two numbers of the tile's type and returns one, as "
      "in [](auto a, auto b) { return a + b; }");
  return detail::reduceOne(x, axis, combiner, false);
}

// Several tiles of one shape at once: combiner(left..., right...) returns a std::tuple.
template <class... T, class F>
std::tuple<Tile<T>...> reduce(const std::tuple<Tile<T>...> &x, detail::Extent axis, F combiner) {
  static_assert(
      std::is_invocable_r_v<std::tuple<Tile<T>...>, F &, Tile<T>..., Tile<T>...>,
      "the combiner of sc::reduce takes two numbers per tile, all of the left and then all "
      "of the right, and returns a std::tuple of one per tile");
  return detail::reduceSeveral(x, axis, combiner, false);
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

// Reduces every axis, one by one.
template <class T, class F> Tile<T> overAll(const Tile<T> &x, Location where, F reduceAxis) {
  Tile<T> result = x;
  for (int rank = rankOf(x.handle(), where); rank > 0; --rank)
    result = reduceAxis(result, Extent(rank - 1, where));
  return result;
}
} // namespace detail

template <class T> Tile<detail::Sum<T>> sum(const Tile<T> &x, detail::Extent axis) {
  const auto wide = cast<detail::Wide<T>>(x, axis.where);
  return cast<detail::Sum<T>>(
      detail::reduceOne(wide, axis, [](auto a, auto b) { return a + b; }, true), axis.where);
}
// Of all elements.
template <class T>
Tile<detail::Sum<T>> sum(const Tile<T> &x, detail::Location where = detail::Location::current()) {
  const auto wide = cast<detail::Wide<T>>(x, where);
  return cast<detail::Sum<T>>(
      detail::overAll(wide, where, [](auto y, auto axis) { return sum(y, axis); }), where);
}

template <class T> Tile<T> max(const Tile<T> &x, detail::Extent axis, Nan nan = Nan::ignore) {
  return detail::reduceOne(x, axis, [nan](auto a, auto b) { return maximum(a, b, nan); }, true);
}
template <class T>
Tile<T> max(const Tile<T> &x, detail::Location where = detail::Location::current()) {
  return detail::overAll(x, where, [](auto y, auto axis) { return max(y, axis); });
}
template <class T> Tile<T> min(const Tile<T> &x, detail::Extent axis, Nan nan = Nan::ignore) {
  return detail::reduceOne(x, axis, [nan](auto a, auto b) { return minimum(a, b, nan); }, true);
}
template <class T>
Tile<T> min(const Tile<T> &x, detail::Location where = detail::Location::current()) {
  return detail::overAll(x, where, [](auto y, auto axis) { return min(y, axis); });
}

namespace detail {
Value positions(const Value &like, const Extent &axis); // of each element along an axis, i32

template <class T, class Better>
Tile<std::int32_t> argBest(const Tile<T> &x, const Extent &axis, Better better) {
  const Tile<std::int32_t> at(positions(x.handle(), axis));
  return std::get<1>(reduceSeveral(
      std::tuple(x, at), axis,
      [better](Tile<T> a, Tile<std::int32_t> i, Tile<T> b, Tile<std::int32_t> j) {
        const Tile<bool> left = better(a, b) || (a == b && i < j);
        return std::tuple(sectile::where(left, a, b), sectile::where(left, i, j));
      },
      true));
}
} // namespace detail

// Where along the axis the largest (smallest) element is, the first of equals.
template <class T> Tile<std::int32_t> argmax(const Tile<T> &x, detail::Extent axis) {
  return detail::argBest(x, axis, [](auto a, auto b) { return a > b; });
}
template <class T> Tile<std::int32_t> argmin(const Tile<T> &x, detail::Extent axis) {
  return detail::argBest(x, axis, [](auto a, auto b) { return a < b; });
}

// Whether some element, or every element, holds.
inline Tile<bool> any(const Tile<bool> &x, detail::Location where = detail::Location::current()) {
  return cast<bool>(max(cast<std::int32_t>(x, where), where), where);
}
inline Tile<bool> all(const Tile<bool> &x, detail::Location where = detail::Location::current()) {
  return cast<bool>(min(cast<std::int32_t>(x, where), where), where);
}

} // namespace sectile
