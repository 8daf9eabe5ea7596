// Which keys a query may see by their positions: causal order, sliding windows, the ends of both
// sequences; and which blocks are therefore worth a visit.
#pragma once
#include <optional>
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

// Query i sees key j where i + offset - left <= j <= i + offset + right.
struct Band {
  Int queries, keys;                        // how many there are
  Int offset;                               // the key that query 0 lies beside
  std::optional<Int> left = {}, right = {}; // how far a query sees; unbounded where there is none

  // Of query and key numbers that broadcast.
  Bool visible(const Int &i, const Int &j) const {
    return withinWindow(where(i < queries, lastKey(i), -1), i, j);
  }
  // The same where nobody asks about queries behind the last.
  Bool visibleKeys(const Int &i, const Int &j) const { return withinWindow(lastKey(i), i, j); }

  struct Range {
    Int first, end; // blocks, or none where end <= first
  };
  // The blocks of `size` keys that hold all that `rows` queries from `row` on see.
  Range keyBlocks(const Int &row, int rows, int size) const {
    Int first = 0, end = keys;
    if (left)
      first = maximum(0, row + offset - *left) / size;
    if (right)
      end = minimum(keys, maximum(0, row + rows + offset + *right));
    return {first, cdiv(end, size)};
  }
  // The blocks of `size` queries that hold all that see any of `columns` keys from `column` on.
  Range queryBlocks(const Int &column, int columns, int size) const {
    Int first = 0, end = queries;
    if (right)
      first = maximum(0, column - offset - *right) / size;
    if (left)
      end = minimum(queries, maximum(0, column + columns - offset + *left));
    return {first, cdiv(end, size)};
  }

  // Whether all of `rows` queries from `row` on are there and see all of `columns` keys from
  // `column` on; or do where they are there.
  Bool allVisible(const Int &row, int rows, const Int &column, int columns) const {
    return row + rows <= queries && allKeysVisible(row, rows, column, columns);
  }
  Bool allKeysVisible(const Int &row, int rows, const Int &column, int columns) const {
    Bool result = column + columns <= keys;
    if (right)
      result = result && column + (columns - 1) <= row + (offset + *right);
    if (left)
      result = result && column >= row + (rows - 1) + (offset - *left);
    return result;
  }

private:
  // One bound for each query, so that each pair takes one comparison.
  Int lastKey(const Int &i) const {
    return right ? minimum(keys - 1, i + (offset + *right)) : keys - 1;
  }
  Bool withinWindow(const Int &last, const Int &i, const Int &j) const {
    Bool result = j <= last;
    if (left)
      result = result && j >= i + (offset - *left);
    return result;
  }
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

// `rows` rows from `row` on and `columns` keys from `column` on, along the axes of a tile.
struct BandBlock {
  const Band &band;
  Int row;
  int rows;
  Int column;
  int columns;
  bool keysFirst = false;         // a tile is [columns, rows] instead of [rows, columns]
  bool withQueryGradient = false; // what queries behind the last see is asked for, too

  Bool visible() const {
    auto i = expand(row + arange(0, rows), keysFirst ? 0 : 1);
    auto j = expand(column + arange(0, columns), keysFirst ? 1 : 0);
    return withQueryGradient ? band.visible(i, j) : band.visibleKeys(i, j);
  }
  // x with `hidden` in place of what is not visible. Most blocks are wholly visible, and compare
  // nothing.
  Tile<float> mask(Tile<float> x, float hidden) const {
    auto all = withQueryGradient ? band.allVisible(row, rows, column, columns)
                                 : band.allKeysVisible(row, rows, column, columns);
    when(!all, [&] { x = where(visible(), x, hidden); });
    return x;
  }
};

} // namespace sectile::blockwise
