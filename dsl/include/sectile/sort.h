// The order of a tile's elements: sorting, the largest k, how often each number occurs.
#pragma once
#include <sectile/move.h>

namespace sectile {

namespace detail {
Value sort(Kind kind, const Value &x, const Extent &axis, bool descending);
// The first k of the sorted elements (all of them for 0), and where each of them was.
void sortWithPositions(Kind kind, const Value &x, const Extent &axis, bool descending,
                       std::int64_t k, Value &sorted, Value &positions);
void checkSameShape(std::span<const Value *const> tiles, Location where);
std::int64_t checkedCount(const Extent &k);
// Sums of ones where there are no weights.
Value histogram(Kind kind, const Value &x, const Extent &bins, const Value *weights,
                const Operand &mask);
} // namespace detail

// Sorted along an axis, the smallest first, or the largest. NaN is larger than all numbers and
// comes out as a positive NaN; -0 comes before +0.
template <class T> Tile<T> sort(const Tile<T> &x, detail::Extent axis, bool descending = false) {
  return Tile<T>(detail::sort(detail::kindOf<T>(), x.handle(), axis, descending));
}
// The first tile is sorted, the others along with it. Stable: equals keep their order.
template <class T, class... V>
std::tuple<Tile<T>, Tile<V>...> sort(const std::tuple<Tile<T>, Tile<V>...> &x, detail::Extent axis,
                                     bool descending = false) {
  return std::apply(
      [&](const Tile<T> &keys, const Tile<V> &...values) {
        const detail::Value *tiles[] = {&keys.handle(), &values.handle()...};
        detail::checkSameShape(tiles, axis.where);
        detail::Value sorted, positions;
        detail::sortWithPositions(detail::kindOf<T>(), keys.handle(), axis, descending, 0, sorted,
                                  positions);
        const Tile<std::int32_t> at(positions);
        return std::tuple<Tile<T>, Tile<V>...>(Tile<T>(sorted), gather(values, at, axis)...);
      },
      x);
}
// Where the elements of the sorted tile are in x. Stable.
template <class T>
Tile<std::int32_t> argsort(const Tile<T> &x, detail::Extent axis, bool descending = false) {
  detail::Value sorted, positions;
  detail::sortWithPositions(detail::kindOf<T>(), x.handle(), axis, descending, 0, sorted,
                            positions);
  return Tile<std::int32_t>(positions);
}

// The k largest along an axis (smallest, if not `largest`), in order, and where they are; of equals
// the first.
template <class T>
std::tuple<Tile<T>, Tile<std::int32_t>> topk(const Tile<T> &x, detail::Extent k,
                                             detail::Extent axis, bool largest = true) {
  detail::Value sorted, positions;
  detail::sortWithPositions(detail::kindOf<T>(), x.handle(), axis, largest, detail::checkedCount(k),
                            sorted, positions);
  return {Tile<T>(sorted), Tile<std::int32_t>(positions)};
}

// How often each of 0, 1, … bins - 1 occurs, where the mask holds.
template <class T>
Tile<std::int32_t> histogram(const Tile<T> &x, detail::Extent bins, detail::Operand mask = {}) {
  static_assert(detail::isInteger(detail::kindOf<T>()), "sc::histogram counts integers");
  return Tile<std::int32_t>(
      detail::histogram(detail::kindOf<T>(), x.handle(), bins, nullptr, mask));
}
// The sum of the weights, a tile of x's shape, of all elements that are 0, 1, … bins - 1; floats in
// any order.
template <class T, class W>
  requires(!std::same_as<W, bool> && !std::same_as<W, Index>)
Tile<W> histogram(const Tile<T> &x, detail::Extent bins, const Tile<W> &weights,
                  detail::Operand mask = {}) {
  static_assert(detail::isInteger(detail::kindOf<T>()), "sc::histogram counts integers");
  static_assert(std::same_as<W, float> || std::same_as<W, std::int32_t> ||
                    std::same_as<W, std::uint32_t>,
                "sc::histogram sums weights of float, std::int32_t or std::uint32_t: sc::cast "
                "others to one of these");
  return Tile<W>(detail::histogram(detail::kindOf<T>(), x.handle(), bins, &weights.handle(), mask));
}

} // namespace sectile
