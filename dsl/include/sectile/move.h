// Operations that move elements within tiles: pairs, halves, mirrors, elements by their index.
#pragma once
#include <sectile/shape.h>
#include <tuple>

namespace sectile {

namespace detail {
Value join(Kind kind, const Value &a, const Value &b, Location where);
void split(const Value &x, Value &first, Value &second, Location where);
Value interleave(Kind kind, const Value &a, const Value &b, Location where);
Value concatenate(Kind kind, const Value &a, const Value &b, const Extent &axis);
Value flip(const Value &x, const Extent &axis);
Value squeeze(const Value &x, const Extent &axis);
Value ravel(const Value &x, Location where);
Value gather(const Value &x, Kind kind, const Value &indices, const Extent &axis);
Value slice(const Value &x, const Extent &axis, const Operand &begin, const Extent &extent);
} // namespace detail

// Side by side along a new last axis of extent 2. The shapes broadcast.
template <class T>
Tile<T> join(const Tile<T> &a, const Tile<T> &b,
             detail::Location where = detail::Location::current()) {
  return Tile<T>(detail::join(detail::kindOf<T>(), a.handle(), b.handle(), where));
}
// The two halves of a last axis of extent 2.
template <class T>
std::tuple<Tile<T>, Tile<T>> split(const Tile<T> &x,
                                   detail::Location where = detail::Location::current()) {
  detail::Value first, second;
  detail::split(x.handle(), first, second, where);
  return {Tile<T>(first), Tile<T>(second)};
}
// Along the last axis, which becomes twice as long: a's first, b's first, a's second, …
template <class T>
Tile<T> interleave(const Tile<T> &a, const Tile<T> &b,
                   detail::Location where = detail::Location::current()) {
  return Tile<T>(detail::interleave(detail::kindOf<T>(), a.handle(), b.handle(), where));
}
// b behind a, of one shape, along an axis.
template <class T> Tile<T> cat(const Tile<T> &a, const Tile<T> &b, detail::Extent axis) {
  return Tile<T>(detail::concatenate(detail::kindOf<T>(), a.handle(), b.handle(), axis));
}
// The last along the axis first.
template <class T> Tile<T> flip(const Tile<T> &x, detail::Extent axis) {
  return Tile<T>(detail::flip(x.handle(), axis));
}
// Without an axis of extent 1.
template <class T> Tile<T> squeeze(const Tile<T> &x, detail::Extent axis) {
  return Tile<T>(detail::squeeze(x.handle(), axis));
}
// All elements, row-major, along one axis.
template <class T>
Tile<T> ravel(const Tile<T> &x, detail::Location where = detail::Location::current()) {
  return Tile<T>(detail::ravel(x.handle(), where));
}
// result[…, i, …] = x[…, indices[…, i, …], …], with i along the axis. Other extents are x's.
template <class T, class I>
Tile<T> gather(const Tile<T> &x, const Tile<I> &indices, detail::Extent axis) {
  static_assert(detail::isInteger(detail::kindOf<I>()), "sc::gather takes indices of integers");
  return Tile<T>(detail::gather(x.handle(), detail::kindOf<I>(), indices.handle(), axis));
}

// The part of x that begins at `begin` along an axis, `extent` long and within x: 0 <= begin <=
// x.extent(axis) - extent. If begin is a number of the host and a multiple of the extent, of which
// x's is a power of two times, a thread keeps its elements where the layout allows it. Everything
// else is a gather.
template <class T>
Tile<T> slice(const Tile<T> &x, detail::Extent axis, detail::Operand begin, detail::Extent extent) {
  return Tile<T>(detail::slice(x.handle(), axis, begin, extent));
}

} // namespace sectile
