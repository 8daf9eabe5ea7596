// The activation functions of tiles, as exactly as T needs them: for 16-bit types by the chip's own
// exponential and reciprocal, whose errors are far below a unit in the last place of the result.
#pragma once
#include "kernels/blocks/Activations.h"
#include <sectile/approximate.h>

namespace sectile {
namespace activation {

// 1 / (1 + e^-x), as c / (c + c e^-x): with c = 2^-16 the chip's reciprocal, which knows normal
// numbers alone, is right for as small results as x times them can matter.
inline Tile<float> fastLogistic(const Tile<float> &x) {
  constexpr float log2e = 1.4426950408889634f, c = 0x1p-16f;
  return fast_divide(c, exp2(fma(x, -log2e, -16.0f)) + c);
}

// An activation is x f(x), with an f that rises from 0 to 1.
struct Gate {
  Tile<float> f;
  Tile<float> slope; // f' of gelu, f' / f of the others
};

// The logistic function of z, where inner is z'.
inline Gate logisticGate(const Tile<float> &z, const Tile<float> &inner) {
  const Tile<float> f = fastLogistic(z);
  return {f, (1.0f - f) * inner};
}

inline bool hasGate(Activation kind) {
  return kind == Activation::gelu || kind == Activation::gelu_tanh || kind == Activation::silu;
}

inline Gate fastGate(Activation kind, const Tile<float> &x) {
  constexpr auto number = [](double value) { return static_cast<float>(value); };
  if (kind == Activation::gelu) {
    // The tail of the normal distribution is its density times a polynomial in 1 / (1 + c |x|),
    // fitted with an error of 2^-17 up to |x| = 6, 2^-13 up to 14.
    const Tile<float> bell = fast_exp(x * (x * -0.5f)),
                      t = fast_divide(1.0f, abs(x) * 0.44f + 1.0f);
    Tile<float> fit = full_like(x, 0.065374017f);
    for (float coefficient : {-0.23773013f, 0.21905449f, 0.095444843f, 0.18276067f, 0.17509497f})
      fit = fma(fit, t, coefficient);
    const Tile<float> tail = bell * (t * fit);
    const Tile<float> rest = 1.0f - tail;
    return {where(x < 0.0f, tail, rest), bell * number(density)};
  }
  if (kind == Activation::silu)
    return logisticGate(x, full_like(x, 1.0f));
  const Tile<float> square = x * x;
  // Where the square is cut off, f (1 - f) is 0: it must not meet an infinity.
  const Tile<float> inner =
      fma(minimum(square, 4096.0f), number(6 * root * cubic), number(2 * root));
  return logisticGate(x * fma(square, number(2 * root * cubic), number(2 * root)), inner);
}

} // namespace activation

template <class T> Tile<float> activateFor(Activation kind, const Tile<float> &x) {
  if constexpr (sizeof(T) == 2) {
    if (activation::hasGate(kind))
      return x * activation::fastGate(kind, x).f;
    if (kind == Activation::sigmoid)
      return activation::fastLogistic(x);
  }
  return activate(kind, x);
}

template <class T> Tile<float> activationDerivativeFor(Activation kind, const Tile<float> &x) {
  if constexpr (sizeof(T) == 2) {
    if (activation::hasGate(kind)) {
      const activation::Gate gate = activation::fastGate(kind, x);
      // f may be 0 where x times the slope overflows.
      return fma(kind == Activation::gelu ? x : x * gate.f, gate.slope, gate.f);
    }
    if (kind == Activation::sigmoid)
      return activation::fastLogistic(x) * activation::fastLogistic(-x);
  }
  return activationDerivative(kind, x);
}

} // namespace sectile
