// Mean and spread of more numbers than a program holds at once, in one pass over them.
#pragma once
#include <sectile/sectile.h>

namespace sectile {

// Numbers come in tiles: of each the mean is taken away before anything is squared, and what the
// tiles' means are apart is added (Chan, Golub and LeVeque), so a large mean costs no digits.
// `sumOf` gives a tile's sum, or those of its rows, in a shape that repeats to the tile's.
template <class SumOf> class Spread {
public:
  Spread(SumOf sumOf, const Tile<float> &zero)
      : sumOf(std::move(sumOf)), total(zero), middle(zero), squares(zero), seen(0.0f) {}

  // Numbers of which each sum has `count` that are inside; the others are 0.
  void add(const Tile<float> &values, const Tile<bool> &inside, const Float &count) {
    const Tile<float> sum = sumOf(values), mean = sum / count, apart = mean - middle;
    const Tile<float> distance = where(inside, values - mean, 0.0f);
    const Float share = count / (seen + count);
    squares += sumOf(distance * distance) + apart * apart * (seen * share);
    middle += apart * share;
    total += sum;
    seen += count;
  }
  // An infinity among the numbers makes it infinite, as a plain sum does.
  Tile<float> mean() const { return total / seen; }
  Tile<float> variance() const { return squares / seen; }

  // What parts of the numbers are combined from: how many, their sum, and that of the squares of
  // their distances from their mean.
  const Float &count() const { return seen; }
  const Tile<float> &sum() const { return total; }
  const Tile<float> &squaresFromMean() const { return squares; }

private:
  SumOf sumOf;
  Tile<float> total, middle, squares;
  Float seen;
};

} // namespace sectile
