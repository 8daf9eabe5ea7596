// Attention over sequences of different lengths packed one behind the other.
#pragma once
#include "kernels/attention/Backward.h"
#include "kernels/blocks/PackedTokens.h"

namespace sectile::blockwise {

// The blocks of packed sequences for programs that do one after another, as Blocks has those of a
// batch: those of a head follow each other, and heads of a sequence. Sequences come in the order of
// a plan, those of most keys first, and programs take blocks to and fro, so that none gets more of
// the long ones than another. In causal order programs do pairs of two heads' blocks that are as
// long as any other pair of the sequence.
class PackedBlocks {
public:
  PackedBlocks(const View<const std::int32_t, 2> &plan, const Int &heads, bool pairs)
      : plan(plan), sequences(maximum(plan.extent(0) - 1, 1)), heads(pairs ? heads / 2 : heads),
        pairs(pairs) {
    const Int tasks = before(plan.extent(0) - 1) * this->heads, round = tasks / num_programs(0);
    count = round + cast<Index>(place(round) < tasks - round * num_programs(0));
    if (pairs)
      count = 2 * count;
  }

  struct Block {
    Int sequence, number, head;
  };
  // Of this program, counted from 0 up to size(). Any that is behind them is of no use, but can be
  // asked for.
  Block at(const Int &number) const {
    const Int round = pairs ? number / 2 : number,
              task = maximum(round * num_programs(0) + place(round), 0);
    const Int rank =
        lastNotBehind(sequences, task, [&](const Int &i) { return before(i) * heads; });
    const Int first = before(rank), blocks = maximum(before(rank + 1) - first, 1),
              within = maximum(task - first * heads, 0);
    Int block = within % blocks, head = within / blocks;
    if (pairs) {
      const Int second = number % 2;
      block = where(second == 0, blocks - 1 - block, block);
      head = 2 * head + second;
    }
    return {maximum(cell(rank, 0), 0), maximum(block, 0), maximum(head, 0)};
  }
  const Int &size() const { return count; }

private:
  Int cell(const Int &rank, int column) const {
    return cast<Index>(load(plan.ptr() + rank * plan.stride(0) + column * plan.stride(1)));
  }
  Int before(const Int &rank) const { return cell(rank, 1); }
  // Of this program, among those that take a block each.
  static Int place(const Int &round) {
    return where(round % 2 == 0, program_id(0), num_programs(0) - 1 - program_id(0));
  }

  View<const std::int32_t, 2> plan;
  Int sequences, heads, count = 0;
  bool pairs;
};

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
