// Rows of RMS norms as device functions: h = x, or x + residual as x's dtype rounds it, and
// rstd = 1 / sqrt(mean of h^2 + eps), of rows that are whole in a block or longer than it.
#pragma once
#include <sectile/sectile.h>

namespace sectile {

template <class T> struct RmsRows {
  View<const T, 2> x, residual;
  View<T, 2> h;
  View<float, 1> rstds;
  Float eps;
  int rows = 1, block = 1024; // of a program's tile
  bool added = false;         // there is a residual, and h is written
  Int row;                    // of tiles

  // h is what is normalised, as rounded as a reader of h sees it.
  Tile<float> take(const Int &at) const {
    auto values = x.tile(rows, block).load(row, at);
    if (!added)
      return cast<float>(values);
    auto result =
        cast<T>(cast<float>(values) + cast<float>(residual.tile(rows, block).load(row, at)));
    h.tile(rows, block).store(row, at, result);
    return cast<float>(result);
  }
  // Writes rstd of these sums of squares; [rows, 1].
  Tile<float> scaleOf(const Tile<float> &squares) const {
    auto rstd = 1.0f / sqrt(squares / cast<float>(x.extent(1)) + eps);
    rstds.tile(rows).store(row, rstd);
    return expand(rstd, 1);
  }
  // The same of rows that are longer than a block. take() has been called for all of them then, and
  // again() gives what it gave.
  Tile<float> scaleOfLong() const {
    auto squares = zeros<float>(rows, block);
    for (auto at : range(0, blocks())) {
      auto values = take(at);
      squares += values * values;
    }
    const auto scale = scaleOf(sum(squares, 1));
    if (added)
      barrier(); // h is read as it was written
    return scale;
  }
  Tile<float> again(const Int &at) const {
    return cast<float>((added ? View<const T, 2>(h) : x).tile(rows, block).load(row, at));
  }
  Int blocks() const { return cdiv(x.extent(1), block); }
};

} // namespace sectile
