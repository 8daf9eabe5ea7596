// Sequences of different lengths packed one behind the other: where each lies, and which block of
// which sequence a program works on.
#pragma once
#include <sectile/language.h>

namespace sectile::blockwise {

struct Tokens {
  Int first, length;

  // Rows of a packed array whose axis 0 counts them.
  template <class T, int N> View<T, N> of(const View<T, N> &packed) const {
    return packed.slice(0, first, length);
  }
};

// Sequence s begins at element starts[s] of `total`, and ends where the next begins.
inline Tokens tokensOf(const View<const std::int32_t, 1> &starts, const Int &s, const Int &total) {
  auto start = [&](const Int &at) {
    auto value = load(starts.ptr() + starts.stride(0) * at);
    return Int(clamp(cast<Index>(value), Int(0), total));
  };
  Int first = start(s);
  return {first, maximum(0, start(s + 1) - first)};
}

// The last of `count` numbers that ascend whose value is not behind `place`, 0 if none is.
template <class Value> Int lastNotBehind(const Int &count, const Int &place, Value &&value) {
  // By halves, which scalars do: where a tile is reduced for it, no producer partition can copy.
  Int halvings = 0;
  for (int bit = 0; bit < 30; ++bit)
    halvings += where(count > (1 << bit), 1, 0);
  Int last = 0, end = maximum(count, 1);
  for ([[maybe_unused]] auto halving : range(0, halvings)) {
    const Int middle = (last + end) / 2;
    const Bool isBehind = value(middle) > place;
    end = where(isBehind, middle, end);
    last = where(isBehind, last, middle);
  }
  return last;
}

// Blocks of `size` rows, `rows` of which are of one token, are counted through all sequences, each
// of which begins a new one: those of sequence s have the numbers from starts[s] * rows / size + s
// on, as many as it needs or one more, wherever it begins.
struct PackedBlock {
  Int sequence, block;
  Bool exists;
};
inline PackedBlock packedBlock(const View<const std::int32_t, 1> &starts, const Int &total,
                               int size, const Int &program, int rows = 1) {
  const Int sequences = starts.extent(0) - 1;
  auto firstBlock = [&](const Int &s) {
    const Int token = tokensOf(starts, s, total).first;
    if (rows == 1)
      return token / size + s;
    // All rows may be more than 32 bits hold.
    return token / size * rows + token % size * rows / size + s;
  };
  const Int sequence = lastNotBehind(sequences, program, firstBlock);
  const Int block = program - firstBlock(sequence);
  return {sequence, block,
          block >= 0 && block * size / rows < tokensOf(starts, sequence, total).length};
}

} // namespace sectile::blockwise
