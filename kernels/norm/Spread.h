// Mean and spread of more numbers than a program holds at once, in one pass over them.
#pragma once
#include <sectile/sectile.h>

namespace sectile {

// Each place of a tile keeps the mean of the numbers that it has seen and the sum of their squared
// distances from it (Welford's method); places are combined at the end. Nothing is squared from
// which a mean has not been taken away, so a large mean costs no digits.
struct Spread {
  Tile<float> totals, means, squares, counts;

  explicit Spread(const Tile<float> &zeros)
      : totals(zeros), means(zeros), squares(zeros), counts(zeros) {}

  void add(const Tile<float> &values, const Tile<bool> &inside) {
    totals += where(inside, values, 0.0f);
    counts += cast<float>(inside);
    auto before = values - means;
    // About a count-th will do: the distances are taken from wherever the mean has moved.
    auto root = rsqrt(maximum(counts, 1.0f));
    means += where(inside, before * (root * root), 0.0f);
    squares += where(inside, before * (values - means), 0.0f);
  }
  // Of all `count` numbers. An infinity among them makes it infinite, as a plain sum does.
  Float mean(const Float &count) const { return sum(totals) / count; }
  Float variance(const Float &count, const Float &mean) const {
    return sum(squaresFrom(mean)) / count;
  }
  // Of the `count` numbers of each row.
  Tile<float> rowMeans(const Float &count) const { return sum(totals, 1) / count; }
  Tile<float> rowVariances(const Float &count, const Tile<float> &rowMeans) const {
    return sum(squaresFrom(expand(rowMeans, 1)), 1) / count;
  }

private:
  template <class Mean> Tile<float> squaresFrom(const Mean &mean) const {
    auto apart = means - mean;
    return squares + counts * apart * apart;
  }
};

} // namespace sectile
