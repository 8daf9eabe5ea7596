// Which elements dropout keeps: a function of the seed and of the element's place alone, so that a
// backward pass, another tiling or another device finds the same ones.
#pragma once
#include <sectile/sectile.h>

namespace sectile::blockwise {

// Key j of query i of a head of a batch is kept where 16 bits of a Philox number of 7 rounds are at
// least p times 2^16. One number decides on 2 by 4 elements, 8 apart, which is how a thread holds
// results of matrix units: the number with key `seed` and counter (j / 32 * 8 + j % 8, i / 16 * 8 +
// i % 8, head, batch). Of its word j / 8 % 4 the low half is for i % 16 < 8.
struct Dropout {
  Scalar<std::uint64_t> seed;
  Scalar<std::uint32_t> threshold; // p times 2^16, in the upper half
  Int batch, head;

  // [rows, columns]: those of queries from `row` on, a multiple of 16, and keys from `column`, one
  // of `columns`, which are a multiple of 16.
  Bool kept(const Int &row, int rows, const Int &column, int columns) const {
    auto i = expand(cast<std::uint64_t>(row / 2 + arange(0, rows / 2)), 1);
    if (columns % 32 == 0) {
      auto words = wordsOf(i, column / 4 + arange(0, columns / 4));
      auto places =
          reshape(join(join(pair(words[0]), pair(words[2])), join(pair(words[1]), pair(words[3]))),
                  rows, columns / 32, 8, 2, 2);
      return reshape(permute(places, {0, 1, 3, 4, 2}), rows, columns);
    }
    // Half of the words are for others.
    auto place = arange(0, columns / 2);
    auto chunk = column / 16 + place / 8;
    auto words = wordsOf(i, chunk / 2 * 8 + place % 8);
    auto upper = expand(chunk % 2 == 1, 0);
    auto places = reshape(
        join(pair(where(upper, words[2], words[0])), pair(where(upper, words[3], words[1]))), rows,
        columns / 16, 8, 2);
    return reshape(permute(places, {0, 1, 3, 2}), rows, columns);
  }

private:
  std::array<Tile<std::uint32_t>, 4> wordsOf(const Tile<std::uint64_t> &i,
                                             const Tile<Index> &j) const {
    return philox<7>(seed, (i << 32) + expand(cast<std::uint64_t>(j), 0), cast<std::uint32_t>(head),
                     cast<std::uint32_t>(batch));
  }
  // By the low half of a word of 8 rows, and by the high half, those of 8 rows more.
  Bool pair(const Tile<std::uint32_t> &word) const {
    const int rows = word.extent(0), columns = word.extent(1);
    auto halves =
        reshape(join((word << 16) >= threshold, word >= threshold), rows / 8, 8, columns, 2);
    return reshape(permute(halves, {0, 3, 1, 2}), 2 * rows, columns);
  }
};

} // namespace sectile::blockwise
