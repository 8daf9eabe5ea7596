// Functions of integers, element by element: the upper half of a product, counts of bits.
#pragma once
#include <sectile/math.h>

namespace sectile {

namespace detail {
enum class BitOp : std::uint8_t { popcount, clz, ctz, ffs, brev };
Value highProduct(Kind kind, const Operand &a, const Operand &b, Location where);
Value bits(BitOp op, Kind kind, const Value &x, Location where);
} // namespace detail

// The upper half of the product, which has twice the bits of its operands: those of 32 and 64 bits
// are one instruction or a few.
template <class A, class B>
detail::Result<A, B> mulhi(const A &a, const B &b,
                           detail::Location where = detail::Location::current()) {
  using R = detail::Result<A, B>;
  return R(detail::highProduct(R::element_kind, {a, where}, {b, where}, where));
}

#define SECTILE_BIT_FUNCTION(name, Result)                                                         \
  template <class T>                                                                               \
  Tile<Result> name(const Tile<T> &x, detail::Location where = detail::Location::current()) {      \
    return Tile<Result>(                                                                           \
        detail::bits(detail::BitOp::name, detail::kindOf<T>(), x.handle(), where));                \
  }
SECTILE_BIT_FUNCTION(popcount, std::int32_t) // how many bits are set
SECTILE_BIT_FUNCTION(clz, std::int32_t)      // zeros before the first set bit; of 0, all bits
SECTILE_BIT_FUNCTION(ctz, std::int32_t)      // zeros after the last set bit; of 0, all bits
SECTILE_BIT_FUNCTION(ffs, std::int32_t)      // 1 + ctz(x); of 0, 0
SECTILE_BIT_FUNCTION(brev, T)                // the bits in reverse order
#undef SECTILE_BIT_FUNCTION

} // namespace sectile
