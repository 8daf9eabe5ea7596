// The activation functions and their derivatives, of tiles of a kernel and of numbers of the host.
#pragma once
#include <algorithm>
#include <cmath>
#include <sectile/sectile.h>
#include <string>
#include <vector>

namespace sectile {

enum class Activation : int {
  none,
  relu,
  relu_squared,
  gelu,
  gelu_tanh,
  silu,
  sigmoid,
  tanh,
  softplus
};
// All of them, as they are counted.
inline std::vector<std::string> epilogueActivations() {
  return {"none", "relu",    "relu_squared", "gelu",    "gelu_tanh",
          "silu", "sigmoid", "tanh",         "softplus"};
}
// Those that do something.
inline std::vector<std::string> activationNames() {
  const std::vector<std::string> names = epilogueActivations();
  return {names.begin() + 1, names.end()};
}
inline Activation activationOf(const std::string &name) {
  const std::vector<std::string> names = epilogueActivations();
  return static_cast<Activation>(std::find(names.begin(), names.end(), name) - names.begin());
}

namespace activation {
// gelu_tanh: 0.5 x (1 + tanh(u)), u = root (x + cubic x^3), root = sqrt(2 / pi).
constexpr double root = 0.7978845608028654, cubic = 0.044715;
constexpr double halfRoot = 0.7071067811865476; // 1/sqrt(2)
constexpr double density = 0.3989422804014327;  // 1/sqrt(2 pi)

// Operations by one name on tiles and on the host's numbers.
template <std::floating_point T> T choose(bool condition, T a, T b) { return condition ? a : b; }
inline Tile<float> choose(const Tile<bool> &condition, const Tile<float> &a, const Tile<float> &b) {
  return where(condition, a, b);
}
template <std::floating_point T> T logistic(T x) { return 1 / (1 + std::exp(-x)); }
inline Tile<float> logistic(const Tile<float> &x) { return sigmoid(x); }
template <std::floating_point T> T constant(const T &, double value) {
  return static_cast<T>(value);
}
inline Tile<float> constant(const Tile<float> &x, double value) {
  return full_like(x, static_cast<float>(value));
}

// Beyond 64 the gate is 0 or 1 in every type, where x^2 may have overflowed.
template <class T> T within(const T &x) {
  const T most = constant(x, 64);
  return choose(x > most, most, choose(x < -most, -most, x));
}
template <class T> T gate(const T &x) { // 0.5 (1 + tanh(u)), which is the logistic function of 2u
  const T y = within(x);
  return logistic(constant(x, 2 * root) * (y + constant(x, cubic) * y * y * y));
}
} // namespace activation

// NaN stays NaN.
template <class T> T activate(Activation kind, const T &x) {
  using namespace activation;
  using sectile::abs, sectile::exp, sectile::log1p, sectile::erf, sectile::tanh;
  using std::abs, std::exp, std::log1p, std::erf, std::tanh;
  const T zero = constant(x, 0), one = constant(x, 1), half = constant(x, 0.5);
  const T positive = choose(x <= zero, zero, x);
  switch (kind) {
  case Activation::none:
    return x;
  case Activation::relu:
    return positive;
  case Activation::relu_squared:
    return positive * positive;
  case Activation::gelu:
    return half * x * (one + erf(x * constant(x, halfRoot)));
  case Activation::gelu_tanh:
    return x * gate(x);
  case Activation::silu:
    return x * logistic(x);
  case Activation::sigmoid:
    return logistic(x);
  case Activation::tanh:
    return tanh(x);
  case Activation::softplus:
    break;
  }
  return positive + log1p(exp(-abs(x)));
}

template <class T> T activationDerivative(Activation kind, const T &x) {
  using namespace activation;
  using sectile::exp, sectile::erf, sectile::tanh;
  using std::exp, std::erf, std::tanh;
  const T zero = constant(x, 0), one = constant(x, 1), half = constant(x, 0.5);
  switch (kind) {
  case Activation::none:
    return one;
  case Activation::relu:
    return choose(x <= zero, zero, one);
  case Activation::relu_squared:
    return choose(x <= zero, zero, constant(x, 2) * x);
  case Activation::gelu:
    return half * (one + erf(x * constant(x, halfRoot))) +
           x * constant(x, density) * exp(-half * x * x);
  case Activation::gelu_tanh: {
    const T g = gate(x), y = within(x);
    return g + x * g * (one - g) * constant(x, 2 * root) * (one + constant(x, 3 * cubic) * y * y);
  }
  case Activation::silu:
    return logistic(x) * (one + x * logistic(-x));
  case Activation::sigmoid:
    return logistic(x) * logistic(-x);
  case Activation::tanh: {
    const T t = tanh(x);
    return one - t * t;
  }
  case Activation::softplus:
    break;
  }
  return logistic(x);
}

} // namespace sectile
