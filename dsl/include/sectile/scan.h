// Scans: every element combined with all before it along an axis.
#pragma once
#include <sectile/reduce.h>

namespace sectile {

// Element i combines 0 to i; in reverse the last down to i, the later on the left. The combiner is
// as for reduce.
template <class T, class F>
Tile<T> associative_scan(const Tile<T> &x, detail::Extent axis, F combiner, bool reverse = false) {
  static_assert(std::is_invocable_r_v<Tile<T>, F &, Tile<T>, Tile<T>>,
                "the combiner of sc::associative_scan takes two numbers of the tile's type and "
                "returns one, as in [](auto a, auto b) { return a + b; }");
  return detail::combineOne(reverse ? detail::Combining::scan_reverse : detail::Combining::scan, x,
                            axis, combiner, false);
}
// Several tiles of one shape at once: combiner(left..., right...) returns a std::tuple.
template <class... T, class F>
std::tuple<Tile<T>...> associative_scan(const std::tuple<Tile<T>...> &x, detail::Extent axis,
                                        F combiner, bool reverse = false) {
  static_assert(
      std::is_invocable_r_v<std::tuple<Tile<T>...>, F &, Tile<T>..., Tile<T>...>,
      "the combiner of sc::associative_scan takes two numbers per tile, all of the left and then "
      "all of the right, and returns a std::tuple of one per tile");
  return detail::combineSeveral(reverse ? detail::Combining::scan_reverse : detail::Combining::scan,
                                x, axis, combiner, false);
}

namespace detail {
template <class T, class F>
Tile<T> scanOurs(const Tile<T> &x, const Extent &axis, bool reverse, F combiner) {
  return combineOne(reverse ? Combining::scan_reverse : Combining::scan, x, axis, combiner, true);
}
} // namespace detail

// Of the types that sum and prod have.
template <class T>
Tile<detail::Sum<T>> cumsum(const Tile<T> &x, detail::Extent axis, bool reverse = false) {
  return cast<detail::Sum<T>>(detail::scanOurs(cast<detail::Wide<T>>(x, axis.where), axis, reverse,
                                               [](auto a, auto b) { return a + b; }),
                              axis.where);
}
template <class T>
Tile<detail::Sum<T>> cumprod(const Tile<T> &x, detail::Extent axis, bool reverse = false) {
  return cast<detail::Sum<T>>(detail::scanOurs(cast<detail::Wide<T>>(x, axis.where), axis, reverse,
                                               [](auto a, auto b) { return a * b; }),
                              axis.where);
}
template <class T>
Tile<T> cummax(const Tile<T> &x, detail::Extent axis, bool reverse = false, Nan nan = Nan::ignore) {
  return detail::scanOurs(x, axis, reverse, [nan](auto a, auto b) { return maximum(a, b, nan); });
}
template <class T>
Tile<T> cummin(const Tile<T> &x, detail::Extent axis, bool reverse = false, Nan nan = Nan::ignore) {
  return detail::scanOurs(x, axis, reverse, [nan](auto a, auto b) { return minimum(a, b, nan); });
}

} // namespace sectile
