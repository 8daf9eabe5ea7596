// Rotary position embedding on the host, for the references.
#pragma once
#include "kernels/ReferenceArithmetic.h"
#include <cmath>
#include <numbers>

namespace sectile {

// Where the numbers of a pair are, and the angle of a position.
struct RotaryLayout {
  bool interleaved = false;
  double theta = 10000;
  std::int64_t rotary = 0;

  std::int64_t first(std::int64_t pair) const { return interleaved ? 2 * pair : pair; }
  std::int64_t second(std::int64_t pair) const {
    return interleaved ? 2 * pair + 1 : pair + rotary / 2;
  }
  // As unfused kernels have it: the frequency, the angle and its sine each in Number.
  template <class Number> Number angle(std::int64_t position, std::int64_t pair) const {
    const Number frequency =
        1 / std::pow(static_cast<Number>(theta),
                     static_cast<Number>(2 * pair) / static_cast<Number>(rotary));
    return static_cast<Number>(position) * frequency;
  }
};

// Turns one row of numbers in place; sign -1 turns it back.
template <class Numbers, class Number = typename Numbers::Number>
void rotateRow(const Numbers &numbers, Number *row, std::int64_t position,
               const RotaryLayout &layout, int sign = 1) {
  for (std::int64_t pair = 0; pair < layout.rotary / 2; ++pair) {
    const Number angle = layout.angle<Number>(position, pair);
    const Number c = numbers.store(std::cos(angle)),
                 s = numbers.store(static_cast<Number>(sign) * std::sin(angle));
    Number &x = row[layout.first(pair)], &y = row[layout.second(pair)];
    const Number turned = numbers.store(numbers.store(x * c) - numbers.store(y * s));
    y = numbers.store(numbers.store(y * c) + numbers.store(x * s));
    x = turned;
  }
}

} // namespace sectile
