// Score: what a lambda of flash::scores computes with. Its result is a score, and its derivatives
// come along while gradients are traced.
#pragma once
#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <sectile/sectile.h>

namespace sectile::flash {
class Score;
}

// That the language's functions of the same names are no match is then not an error.
template <> struct sectile::detail::OperandElement<sectile::flash::Score> {
  using type = float;
};

namespace sectile::flash {

// A tile of scores with its derivatives (a dual number; Clifford, 1873): by the score that the
// lambda was given, and by learned operands. A forward pass asks for none, and then they cost
// nothing. To be multiplied by a number and to have one added is put off until tiles meet, so that
// it is one operation for each score, or none.
class Score {
public:
  Score(float number);
  Score(const Tile<float> &tile);

  // The scores themselves. What is computed of these by other functions than those below counts as
  // a constant where gradients are taken.
  Tile<float> value() const;

  // Found for scores alone: tiles and numbers have operators of their own.
  friend Score operator+(const Score &a, const Score &b) { return a.plus(b); }
  friend Score operator-(const Score &a, const Score &b) { return a.plus(-b); }
  friend Score operator*(const Score &a, const Score &b) { return a.times(b); }
  friend Score operator/(const Score &a, const Score &b) { return a.over(b); }
  friend Score operator-(const Score &a) { return a.scaled(-1.0f); }
  Score &operator+=(const Score &b) { return *this = *this + b; }
  Score &operator-=(const Score &b) { return *this = *this - b; }
  Score &operator*=(const Score &b) { return *this = *this * b; }
  Score &operator/=(const Score &b) { return *this = *this / b; }

  // Beside q and k of 16 bits, tanh, sigmoid and soft_cap take fast forms, whose errors are below
  // 2^-20 of their largest result.
  friend Score tanh(const Score &x);
  friend Score sigmoid(const Score &x);
  friend Score exp(const Score &x);
  friend Score log(const Score &x);
  friend Score abs(const Score &x); // its derivative at 0 is 0
  // cap tanh(x / cap).
  friend Score soft_cap(const Score &x, const Float &cap);
  // Of two that are equal, the derivatives of the first.
  friend Score maximum(const Score &a, const Score &b);
  friend Score minimum(const Score &a, const Score &b);
  friend Score where(const Bool &condition, const Score &a, const Score &b);

  // For the loops that call the lambdas.

  // products times scale. coarse: of operands of 16 bits.
  static Score ofProducts(const Tile<float> &products, const Float &scale, bool coarse);
  // The same with a derivative of 1 by `slot`.
  Score as(int slot) const;
  // The gradient by the slot, of the gradient by this score; nothing where it does not depend on
  // it.
  std::optional<Tile<float>> gradient(int slot, const Tile<float> &ofThis) const;

private:
  // tile() * factor, each 1 where there is none. The tile is computed where a gradient is asked
  // for: until then only what it is computed of needs registers.
  using Lazy = std::function<Tile<float>()>;
  struct Slope {
    Lazy tile;
    std::optional<Float> factor;
    Slope times(const Lazy &by) const;
    Tile<float> of(const Tile<float> &gradient) const;
  };
  using Slopes = std::map<int, Slope>;

  Score plus(const Score &b) const;
  Score times(const Score &b) const;
  Score over(const Score &b) const;
  Score withValue(const Tile<float> &result) const; // of this one's precision, without slopes
  bool isNumber() const;
  Score scaled(const Float &number) const;
  void addSlopes(const Score &of, const Lazy &by = {});
  static Score chosen(const Bool &first, const Tile<float> &result, const Score &a, const Score &b);

  // base * factor + offset.
  Tile<float> base;
  std::optional<Float> factor, offset;
  bool coarse = false;
  Slopes slopes;
};

// The same of a score and a tile or a number.
template <class B>
concept ToScore = std::convertible_to<const B &, Score> && !std::same_as<B, Score>;
template <ToScore B> Score maximum(const Score &a, const B &b) { return maximum(a, Score(b)); }
template <ToScore A> Score maximum(const A &a, const Score &b) { return maximum(Score(a), b); }
template <ToScore B> Score minimum(const Score &a, const B &b) { return minimum(a, Score(b)); }
template <ToScore A> Score minimum(const A &a, const Score &b) { return minimum(Score(a), b); }
template <ToScore B> Score where(const Bool &condition, const Score &a, const B &b) {
  return where(condition, a, Score(b));
}
template <ToScore A> Score where(const Bool &condition, const A &a, const Score &b) {
  return where(condition, Score(a), b);
}

} // namespace sectile::flash
