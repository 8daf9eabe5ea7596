// Tiles out of nothing: ranges of indices, constants.
#pragma once
#include <sectile/tile.h>

namespace sectile {

namespace detail {
Value arange(const Extent &start, const Extent &end);
// Extents that were left out are not there.
Value full(Kind kind, const Operand &value, std::initializer_list<Extent> extents);
Value fullLike(Kind kind, const Operand &value, const Value &like, Location where);
} // namespace detail

// start, start + 1, … end - 1, as a tile of rank 1.
inline Int arange(detail::Extent start, detail::Extent end) {
  return Int(detail::arange(start, end));
}

// A tile of these extents with every element the same; without extents a single number.
template <class T>
Tile<T> full(detail::Operand value, detail::Extent d0 = {}, detail::Extent d1 = {},
             detail::Extent d2 = {}, detail::Extent d3 = {}, detail::Extent d4 = {}) {
  return Tile<T>(detail::full(detail::kindOf<T>(), value, {d0, d1, d2, d3, d4}));
}
template <class T>
Tile<T> zeros(detail::Extent d0 = {}, detail::Extent d1 = {}, detail::Extent d2 = {},
              detail::Extent d3 = {}, detail::Extent d4 = {}) {
  return Tile<T>(detail::full(detail::kindOf<T>(), {0, d0.where}, {d0, d1, d2, d3, d4}));
}
// Of the shape of another tile.
template <class T>
Tile<T> full_like(const Tile<T> &like, detail::Operand value,
                  detail::Location where = detail::Location::current()) {
  return Tile<T>(detail::fullLike(detail::kindOf<T>(), value, like.handle(), where));
}
template <class T>
Tile<T> zeros_like(const Tile<T> &like, detail::Location where = detail::Location::current()) {
  return Tile<T>(detail::fullLike(detail::kindOf<T>(), {0, where}, like.handle(), where));
}

} // namespace sectile
