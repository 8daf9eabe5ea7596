// Which block, head and batch a program has, and which rows of several heads.
#pragma once
#include <sectile/sectile.h>

namespace sectile::blockwise {

// The block of queries that a program has. Programs start in the order of their numbers, and in
// causal order later queries see more keys: what takes longest must not start last. The maximum is
// for the compiler, which takes what may be negative for a place before the first row.
inline Int queryBlock(detail::Extent axis = 0) {
  return maximum(num_programs(axis) - 1 - program_id(axis), 0);
}

// The head and the batch of a program of a grid (heads of a group, blocks, groups and batches): the
// blocks of as many heads as the cache holds start side by side, what takes longest first.
struct HeadAndBatch {
  Int head, batch;
  HeadAndBatch(const Int &heads, int ofGroup) {
    auto groups = heads / ofGroup;
    head = program_id(2) % groups * ofGroup + program_id(0);
    batch = program_id(2) / groups;
  }
};

// The blocks of all heads, for programs that do one after another. In causal order blocks differ in
// length: each program then does pairs of them that are as long as any other pair, the block that
// is i-th from the end of one head and the i-th of the next.
class Blocks {
public:
  Blocks(const Int &batches, const Int &heads, const Int &queries, int rows, bool pairs)
      : heads(heads), blocks(cdiv(queries, rows)), pairs(pairs) {
    auto tasks = blocks * heads * batches;
    count = cdiv((pairs ? tasks / 2 : tasks) - program_id(0), num_programs(0));
    if (pairs)
      count = 2 * count;
  }

  struct Block {
    Int number, head, batch;
  };
  // Of this program, counted from 0 up to count().
  Block at(const Int &number) const {
    auto turn = pairs ? number / 2 : number;
    auto task = maximum(program_id(0) + turn * num_programs(0), 0);
    auto row = task / blocks, block = task % blocks;
    if (pairs) {
      auto second = number % 2;
      row = 2 * row + second;
      block = where(second == 0, blocks - 1 - block, block);
    }
    return {maximum(block, 0), row % heads, row / heads};
  }
  const Int &size() const { return count; }

private:
  Int heads, blocks, count = 0;
  bool pairs;
};

// Rows of blocks that are queries of several heads: row r is query r / heads of the head numbered
// r % heads.
struct PackedRows {
  int heads = 1;

  // The queries that `rows` rows from `row` on, a multiple of `rows`, are of.
  Int query(const Int &row) const { return heads == 1 ? row : row / heads; }
  int queries(int rows) const {
    return heads == 1 || rows % heads == 0 ? rows / heads : (rows - 1) / heads + 2;
  }
  // What rows of a view of heads and queries have before their first element.
  template <class Of> Tile<std::int64_t> place(const Of &view, const Int &row) const {
    return cast<std::int64_t>(row % heads) * view.stride(0) +
           cast<std::int64_t>(row / heads) * view.stride(1);
  }
};

} // namespace sectile::blockwise
