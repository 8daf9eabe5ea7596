// Conversions beyond cast and bitcast: rounding and overflow of floats as told, addresses as
// integers, bools packed into integers.
#pragma once
#include <sectile/memory.h>
#include <sectile/reduce.h>

namespace sectile {

// Which neighbour a conversion between floats takes.
enum class Rounding : std::uint8_t { nearest_even, toward_zero };
// What becomes of a float that is too large for the other type: infinity (NaN in types without
// one), or the largest number of its sign. Rounding toward zero, only infinity itself is too large.
enum class Overflow : std::uint8_t { infinity, saturate };

namespace detail {
Value castAs(Kind from, Kind to, const Value &x, Rounding rounding, Overflow overflow,
             Location where);
Value addressOf(const Value &ptr, Location where);
Value pointerTo(Kind element, const Value &address, Location where);
Value group(const Value &x, int bits, Location where);
Value bitPositions(const Value &like, Kind kind, int bits, Location where);
Value ungroup(const Value &x, Location where);

// What cast<T>(x) does: the 8-bit types saturate.
template <class T>
inline constexpr Overflow usualOverflow =
    bitsOf(kindOf<T>()) == 8 ? Overflow::saturate : Overflow::infinity;
template <class P> struct IsPtr : std::false_type {};
template <class T> struct IsPtr<Ptr<T>> : std::true_type {};
template <class T>
concept PackedBits = std::unsigned_integral<T> && !std::same_as<T, bool>;
} // namespace detail

// A float as another float type.
template <class T, class U>
Tile<T> cast(const Tile<U> &x, Rounding rounding, Overflow overflow = detail::usualOverflow<T>,
             detail::Location where = detail::Location::current()) {
  static_assert(detail::FloatElement<T> && detail::FloatElement<U>,
                "rounding and overflow are told for conversions between floats: a float goes to an "
                "integer toward zero");
  return Tile<T>(detail::castAs(detail::kindOf<U>(), detail::kindOf<T>(), x.handle(), rounding,
                                overflow, where));
}
template <class T, class U>
Tile<T> cast(const Tile<U> &x, Overflow overflow,
             detail::Location where = detail::Location::current()) {
  return cast<T>(x, Rounding::nearest_even, overflow, where);
}

// Addresses in bytes, and the pointers at them.
template <std::same_as<std::int64_t> I, class T>
Tile<std::int64_t> bitcast(const Ptr<T> &ptr,
                           detail::Location where = detail::Location::current()) {
  return Tile<std::int64_t>(detail::addressOf(ptr.handle(), where));
}
template <class P>
  requires detail::IsPtr<P>::value
P bitcast(const Tile<std::int64_t> &address, detail::Location where = detail::Location::current()) {
  return P(
      detail::pointerTo(detail::storedKind<typename P::value_type>(), address.handle(), where));
}

// Bools as the bits of integers, as many along the last axis as T has bits; the first of them is
// the lowest bit.
template <detail::PackedBits T>
Tile<T> pack_bits(const Tile<bool> &x, detail::Location where = detail::Location::current()) {
  constexpr int bits = 8 * static_cast<int>(sizeof(T));
  const Tile<bool> groups(detail::group(x.handle(), bits, where));
  const Tile<T> at(detail::bitPositions(groups.handle(), detail::kindOf<T>(), bits, where));
  const Tile<T> one(
      detail::cast(detail::Kind::boolean, detail::kindOf<T>(), groups.handle(), where));
  const Tile<T> placed(
      detail::binary(detail::BinaryOp::shl, detail::kindOf<T>(), {one, where}, {at, where}));
  return detail::reduceOurs(placed, detail::Axes(-1, where), [](auto a, auto b) { return a | b; });
}
// Undoes it: the last axis becomes as many times longer as T has bits.
template <detail::PackedBits T>
Tile<bool> unpack_bits(const Tile<T> &x, detail::Location where = detail::Location::current()) {
  constexpr int bits = 8 * static_cast<int>(sizeof(T));
  constexpr detail::Kind kind = detail::kindOf<T>();
  const Tile<T> groups(detail::expand(x.handle(), {-1, where}));
  const Tile<T> at(detail::bitPositions(groups.handle(), kind, bits, where));
  const Tile<T> shifted(detail::binary(detail::BinaryOp::shr, kind, {groups, where}, {at, where}));
  const Tile<T> bit(detail::binary(detail::BinaryOp::bit_and, kind, {shifted, where}, {1, where}));
  return Tile<bool>(
      detail::ungroup(detail::cast(kind, detail::Kind::boolean, bit.handle(), where), where));
}

} // namespace sectile
