// Attention over sequences of different lengths packed one behind the other.
#pragma once
#include "kernels/attention/Backward.h"
#include "kernels/blocks/PackedTokens.h"

namespace sectile::blockwise {

// One packed sequence: its tokens among the queries, and among the keys.
struct PackedSequence {
  Int number;
  Tokens queries, keys;

  PackedSequence(const Int &number, const Tokens &queries, const Tokens &keys)
      : number(number), queries(queries), keys(keys) {}

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

// The blocks of packed sequences for programs that do one after another, as Blocks has those of a
// batch: those of a head follow each other, and heads of a sequence. Sequences come in the order of
// a plan, those of most keys first, and programs take blocks to and fro, so that none gets more of
// the long ones than another. In causal order programs do pairs of two heads' blocks that are as
// long as any other pair of the sequence.
//
// A plan has a row for each block of one head: its sequence, the row of the sequence's first block,
// how many blocks it has, its first query, queries, first key and keys. Loads that depend on each
// other would take longer than a short block. The last row has the number of the others.
class PackedBlocks {
public:
  PackedBlocks(const View<const std::int32_t, 2> &plan, const Int &heads, const Int &queries,
               const Int &keys, bool pairs)
      : plan(plan), queries(queries), keys(keys), heads(pairs ? heads / 2 : heads), pairs(pairs) {
    const Int tasks = cell(plan.extent(0) - 1, 0) * this->heads, round = tasks / num_programs(0);
    count = round + cast<Index>(place(round) < tasks - round * num_programs(0));
    if (pairs)
      count = 2 * count;
  }

  struct Block {
    PackedSequence sequence;
    Int number, head;
  };
  // Of this program, counted from 0 up to size(). Any that is behind them is of no use, but can be
  // asked for.
  Block at(const Int &number) const {
    const Int round = pairs ? number / 2 : number,
              task = maximum(round * num_programs(0) + place(round), 0);
    // As many rows are a sequence's as a head has blocks of it.
    const Int row = minimum(task / maximum(heads, 1), plan.extent(0) - 1);
    const Int first = cell(row, 1), blocks = maximum(cell(row, 2), 1),
              within = maximum(task - first * heads, 0);
    Int block = within % blocks, head = within / blocks;
    if (pairs) {
      const Int second = number % 2;
      block = where(second == 0, blocks - 1 - block, block);
      head = 2 * head + second;
    }
    // Within bounds that the engine knows.
    const auto tokens = [&](int column, const Int &total) {
      return Tokens{clamp(cell(row, column), 0, total), clamp(cell(row, column + 1), 0, total)};
    };
    return {{maximum(cell(row, 0), 0), tokens(3, queries), tokens(5, keys)},
            maximum(block, 0),
            maximum(head, 0)};
  }
  const Int &size() const { return count; }

private:
  Int cell(const Int &row, int column) const {
    return cast<Index>(load(plan.ptr() + row * plan.stride(0) + column * plan.stride(1)));
  }
  // Of this program, among those that take a block each.
  static Int place(const Int &round) {
    return where(round % 2 == 0, program_id(0), num_programs(0) - 1 - program_id(0));
  }

  View<const std::int32_t, 2> plan;
  Int queries, keys, heads, count = 0;
  bool pairs;
};

// What the gradients need of one query head of it.
template <class T>
QueryHead<T> packedHead(const flash::PackedBackwardTensors<T> &in, const PackedSequence &sequence,
                        const Int &head, const Scores &scores) {
  return {sequence.queries.of(in.q.fix(1, head)), sequence.queries.of(in.dO.fix(1, head)),
          sequence.queries.of(in.logs.at(head)), sequence.queries.of(in.delta.at(head)), scores};
}

} // namespace sectile::blockwise
