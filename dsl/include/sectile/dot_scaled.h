// Matrix products of the microscaling (mx) formats: small floats of which 32 neighbours share a
// scale.
#pragma once
#include <sectile/tile.h>

namespace sectile {

// In the place of scales: the operand is not scaled.
struct NoScale {};
inline constexpr NoScale no_scale;

namespace detail {
// e8m0 codes, or none.
class Scale {
public:
  Scale(const Tile<std::uint8_t> &codes) : codes_(&codes.handle()) {}
  Scale(NoScale) {}
  const Value *codes() const { return codes_; }

private:
  const Value *codes_ = nullptr;
};

struct ScaledOperand {
  Kind kind;
  const Value &tile;
  const Value *scale;
};
Value dotScaled(const ScaledOperand &a, const ScaledOperand &b, const Value *acc, Location where);

template <class T> constexpr void checkScaledElement() {
  static_assert(std::same_as<T, std::uint8_t> || std::same_as<T, float8_e4m3> ||
                    std::same_as<T, float8_e5m2> || std::same_as<T, half> ||
                    std::same_as<T, bfloat16>,
                "sc::dot_scaled takes tiles of float8_e4m3, float8_e5m2, half, bfloat16, or "
                "uint8_t for pairs of e2m1");
}
} // namespace detail

// (a · 2^(a_scale - 127)) · (b · 2^(b_scale - 127)), and acc, for a of [M, K] and b of [K, N], with
// scales of [M, K / 32] and [N, K / 32]. uint8_t holds two e2m1 that are neighbours along K, the
// first in the low half.
template <class A, class B>
Tile<float> dot_scaled(const Tile<A> &a, detail::Scale a_scale, const Tile<B> &b,
                       detail::Scale b_scale,
                       detail::Location where = detail::Location::current()) {
  detail::checkScaledElement<A>();
  detail::checkScaledElement<B>();
  return Tile<float>(detail::dotScaled({detail::kindOf<A>(), a.handle(), a_scale.codes()},
                                       {detail::kindOf<B>(), b.handle(), b_scale.codes()}, nullptr,
                                       where));
}
template <class A, class B>
Tile<float> dot_scaled(const Tile<A> &a, detail::Scale a_scale, const Tile<B> &b,
                       detail::Scale b_scale, const Tile<float> &acc,
                       detail::Location where = detail::Location::current()) {
  detail::checkScaledElement<A>();
  detail::checkScaledElement<B>();
  return Tile<float>(detail::dotScaled({detail::kindOf<A>(), a.handle(), a_scale.codes()},
                                       {detail::kindOf<B>(), b.handle(), b_scale.codes()},
                                       &acc.handle(), where));
}

} // namespace sectile
