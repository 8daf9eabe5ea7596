// Random numbers of elements: functions of the seed and of an element's place in row-major order.
// place / 4, in 64 bits, counts the generator, and place % 4 chooses among its four words.
#pragma once
#include "kernels/elementwise/Together.h"

namespace sectile {

// The numbers in [0, 1) drawn for the elements of a program's tile.
template <class T>
Tile<float> drawn(const View<const T, 3> &x, const ElementTile &at, const Tile<std::int64_t> &seed,
                  const ElementsConfig &config) {
  const int m = config.rows, n = config.columns;
  if (config.dense) {
    // Four neighbours share a draw.
    auto first = cast<std::int64_t>(at.column) * (n / 4);
    auto numbers = rand4x(seed, first + cast<std::int64_t>(arange(0, n / 4)));
    return reshape(join(join(numbers[0], numbers[2]), join(numbers[1], numbers[3])), 1, 1, n);
  }
  auto row = cast<std::int64_t>(at.outer) * x.extent(1) + at.row * m + arange(0, m);
  auto column = at.column * n + arange(0, n);
  auto place = expand(row, 1) * cast<std::int64_t>(x.extent(2)) + expand(column, 0);
  auto numbers = rand4x(seed, place >> 2);
  auto word = place & 3;
  auto number = where(word < 2, where(word == 0, numbers[0], numbers[1]),
                      where(word == 2, numbers[2], numbers[3]));
  return reshape(number, 1, m, n);
}

} // namespace sectile
