// Which elements dropout keeps: a function of the seed and of the element's place alone, so that a
// backward pass, another tiling or another device finds the same ones.
#pragma once
#include <sectile/sectile.h>

namespace sectile::blockwise {

// Key j of query i of a head of a batch is kept where word j % 4 of the Philox number with key
// `seed` and counter (j / 4, i, head, batch), each of 32 bits, is at least `threshold`: the
// probability to drop it, times 2^32.
struct Dropout {
  Scalar<std::uint64_t> seed;
  Scalar<std::uint32_t> threshold;
  Int batch, head;

  // [rows, columns]: those of queries from `row` and keys from `column` on, both multiples of 4.
  Bool kept(const Int &row, int rows, const Int &column, int columns) const {
    auto i = expand(cast<std::uint64_t>(row + arange(0, rows)), 1);
    auto group = expand(cast<std::uint64_t>(column / 4 + arange(0, columns / 4)), 0);
    auto words =
        philox(seed, (i << 32) + group, cast<std::uint32_t>(head), cast<std::uint32_t>(batch));
    return interleave(interleave(words[0] >= threshold, words[2] >= threshold),
                      interleave(words[1] >= threshold, words[3] >= threshold));
  }
};

} // namespace sectile::blockwise
