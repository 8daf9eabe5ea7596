// Attention over sequences of different lengths packed one behind the other.
#pragma once
#include "kernels/attention/Backward.h"
#include "kernels/blocks/PackedTokens.h"

namespace sectile::blockwise {

// One packed sequence: its tokens among the queries, and among the keys.
struct PackedSequence {
  Int number;
  Tokens queries, keys;

  // Empty where the block does not exist: nothing is then read or written.
  PackedSequence(const PackedBlock &at, const View<const std::int32_t, 1> &queryStarts,
                 const View<const std::int32_t, 1> &keyStarts, const Int &queryTotal,
                 const Int &keyTotal)
      : number(at.sequence), queries(tokensOf(queryStarts, at.sequence, queryTotal)),
        keys(tokensOf(keyStarts, at.sequence, keyTotal)) {
    queries.length = where(at.exists, queries.length, 0);
    keys.length = where(at.exists, keys.length, 0);
  }

  template <class T>
  PackedSequence(const PackedBlock &at, const flash::PackedBackwardTensors<T> &of)
      : PackedSequence(at, of.queryStarts, of.keyStarts, of.q.extent(0), of.k.extent(0)) {}

  flash::Sequence of(const Int &head) const {
    return {number, head, queries.length, keys.length, queries.first, keys.first};
  }
};

// What the gradients need of one query head of it.
template <class T>
QueryHead<T> packedHead(const flash::PackedBackwardTensors<T> &in, const PackedSequence &sequence,
                        const Int &head, const Scores &scores) {
  return {sequence.queries.of(in.q.fix(1, head)), sequence.queries.of(in.dO.fix(1, head)),
          sequence.queries.of(in.logs.at(head)), sequence.queries.of(in.delta.at(head)), scores};
}

} // namespace sectile::blockwise
