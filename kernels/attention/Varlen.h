// Sequences of different lengths packed one behind the other: where each lies, and which block of
// which sequence a program works on.
#pragma once
#include "kernels/attention/OptionScores.h"

namespace sectile::blockwise {

struct Sequence {
  Int first, length;

  // Rows of a packed array whose axis 0 counts them.
  template <class T, int N> View<T, N> of(const View<T, N> &packed) const {
    return packed.slice(0, first, length);
  }
};

// Sequence s begins at element starts[s] of `total`, and ends where the next begins.
inline Sequence sequenceAt(const View<const std::int32_t, 1> &starts, const Int &s,
                           const Int &total) {
  auto start = [&](const Int &at) {
    auto value = load(starts.ptr() + starts.stride(0) * at);
    return Int(clamp(cast<Index>(value), Int(0), total));
  };
  Int first = start(s);
  return {first, maximum(0, start(s + 1) - first)};
}

// Blocks are counted through all sequences, each of which begins a new one: those of sequence s
// have the numbers from starts[s] / size + s on, as many as it needs or one more, wherever it
// begins.
struct PackedBlock {
  Int sequence, block;
  Bool exists;
};
inline PackedBlock packedBlock(const View<const std::int32_t, 1> &starts, const Int &total,
                               int size, const Int &program) {
  constexpr int together = 256;
  const Int sequences = starts.extent(0) - 1;
  auto begun = zeros<std::int32_t>(together); // sequences with a block up to this one
  for (auto chunk : range(0, cdiv(sequences, together))) {
    const Int s = chunk * together + arange(0, together);
    const Bool isOne = s < sequences;
    auto start = load(starts.ptr() + cast<std::int64_t>(s) * starts.stride(0), isOne);
    const Int first = clamp(cast<Index>(start), Int(0), total);
    begun += cast<std::int32_t>(isOne && first / size + s <= program);
  }
  const Int sequence = maximum(cast<Index>(sum(begun, 0)) - 1, 0);
  const Sequence at = sequenceAt(starts, sequence, total);
  const Int block = program - (at.first / size + sequence);
  return {sequence, block, block >= 0 && block * size < at.length};
}

// A pair of packed arrays, that of queries and that of keys.
struct PackedPair {
  Sequence queries, keys;

  // Empty ones where the block does not exist: nothing is then read or written.
  PackedPair(const PackedBlock &at, const View<const std::int32_t, 1> &queryStarts,
             const View<const std::int32_t, 1> &keyStarts, const Int &queryTotal,
             const Int &keyTotal)
      : queries(sequenceAt(queryStarts, at.sequence, queryTotal)),
        keys(sequenceAt(keyStarts, at.sequence, keyTotal)) {
    queries.length = where(at.exists, queries.length, 0);
    keys.length = where(at.exists, keys.length, 0);
  }
};

// A query's bias and mask have a column for each key of its sequence. Without one they would not
// reach the key, and nobody would notice.
template <class T, class Config>
void requireColumns(const Config &config, const PackedPair &pair, const View<const T, 3> &bias,
                    const View<const bool, 3> &mask) {
  if (config.bias)
    device_assert(pair.keys.length <= bias.extent(2), "bias has a column for each key");
  if (config.mask)
    device_assert(pair.keys.length <= mask.extent(2), "mask has a column for each key");
}

// The options of a pair, whose bias and mask are [Hq, Tq, Mk].
template <class T>
OptionScores packedScores(const AttentionConfig &config, const OptionNumbers &numbers,
                          const PackedPair &pair, const View<const T, 3> &bias,
                          const View<const bool, 3> &mask) {
  return {config, numbers, bias, mask, [pair](const auto &view, const flash::At &at) {
            return at.per_pair(pair.queries.of(view.at(at.head())));
          }};
}

} // namespace sectile::blockwise
