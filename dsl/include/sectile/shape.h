// Operations on whole tiles: shapes and matrix products.
#pragma once
#include <initializer_list>
#include <sectile/tile.h>

namespace sectile {

// How a dot of float32 operands is computed: in full (ieee), or by matrix units where the chip has
// them, each operand rounded to tf32 or taken as a sum of two or three smaller numbers, of which
// the smallest products are left out. Sums of fp8 products are float32; with tf32 a chip may keep
// only 13 bits of them within 128 of K.
enum class Precision : std::uint8_t { tf32, ieee, tf32x3, bf16x3, bf16x6 };

namespace detail {
Value expand(const Value &x, const Extent &axis);
Value broadcastTo(const Value &x, std::initializer_list<Extent> extents, Location where);
Value reshape(const Value &x, std::initializer_list<Extent> extents, Location where);
Value permute(const Value &x, std::span<const int> order, Location where);
Value transpose(const Value &x, Location where);
Value dot(Kind a, const Value &aValue, Kind b, const Value &bValue, Kind acc, const Value *accValue,
          Precision precision, Location where);

template <class A, class B> constexpr auto accumulatorBox() {
  if constexpr (std::same_as<A, double> || std::same_as<B, double>)
    return TypeBox<double>{};
  else if constexpr (isFloat(kindOf<A>()) || isFloat(kindOf<B>()))
    return TypeBox<float>{};
  else
    return TypeBox<std::int32_t>{};
}
template <class A, class B> using Accumulator = typename decltype(accumulatorBox<A, B>())::type;
} // namespace detail

// Inserts an axis of extent 1; -1 is behind the last.
template <class T> Tile<T> expand(const Tile<T> &x, detail::Extent axis) {
  return Tile<T>(detail::expand(x.handle(), axis));
}
// Repeats along axes of extent 1, and along new leading axes.
template <class T>
Tile<T> broadcast_to(const Tile<T> &x, detail::Extent d0, detail::Extent d1 = {},
                     detail::Extent d2 = {}, detail::Extent d3 = {}, detail::Extent d4 = {}) {
  return Tile<T>(detail::broadcastTo(x.handle(), {d0, d1, d2, d3, d4}, d0.where));
}
// The same elements in row-major order.
template <class T>
Tile<T> reshape(const Tile<T> &x, detail::Extent d0, detail::Extent d1 = {}, detail::Extent d2 = {},
                detail::Extent d3 = {}, detail::Extent d4 = {}) {
  return Tile<T>(detail::reshape(x.handle(), {d0, d1, d2, d3, d4}, d0.where));
}
// Axis i of the result is axis order[i] of x.
template <class T>
Tile<T> permute(const Tile<T> &x, std::initializer_list<int> order,
                detail::Location where = detail::Location::current()) {
  return Tile<T>(detail::permute(x.handle(), {order.begin(), order.size()}, where));
}
// Swaps the last two axes.
template <class T>
Tile<T> trans(const Tile<T> &x, detail::Location where = detail::Location::current()) {
  return Tile<T>(detail::transpose(x.handle(), where));
}

// a · b, or acc + a · b, of [M, K] and [K, N], or of [B, M, K] and [B, K, N]. Floats of up to 32
// bits accumulate in float32 (float16 in float16 where acc is), double in double, int8 in int32.
template <class A, class B>
Tile<detail::Accumulator<A, B>> dot(const Tile<A> &a, const Tile<B> &b,
                                    Precision precision = Precision::tf32,
                                    detail::Location where = detail::Location::current()) {
  using C = detail::Accumulator<A, B>;
  return Tile<C>(detail::dot(detail::kindOf<A>(), a.handle(), detail::kindOf<B>(), b.handle(),
                             detail::kindOf<C>(), nullptr, precision, where));
}
template <class A, class B, class C>
Tile<C> dot(const Tile<A> &a, const Tile<B> &b, const Tile<C> &acc,
            Precision precision = Precision::tf32,
            detail::Location where = detail::Location::current()) {
  return Tile<C>(detail::dot(detail::kindOf<A>(), a.handle(), detail::kindOf<B>(), b.handle(),
                             detail::kindOf<C>(), &acc.handle(), precision, where));
}

} // namespace sectile
