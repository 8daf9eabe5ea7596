// Sums of products whose operands have scales for blocks of K: within a block the sums are those of
// the codes, and each block's are scaled once.
#pragma once
#include "kernels/matmul/ProductModel.h"
#include <optional>
#include <sectile/sectile.h>
#include <vector>

namespace sectile {

// What is scaled: `parts` products [m, n] over the same blocks, from `first` up to `end`.
struct ScaledBlocks {
  int parts, m, n;
  Int first, end;
  LoopOptions options = {};
  int ahead = 1; // blocks ahead that scales are loaded: behind copies in flight they take longer
  bool hasRows = true, hasColumns = true;
};

// For each part the sum over the blocks of productsOf(block)[part] * rowScales(block), [m, 1], *
// columnScales(block, part), which is one number, [1, n] or [m, 1].
template <class Rows, class Columns, class Products>
std::vector<Tile<float>> sumsOfBlocks(const ScaledBlocks &of, Rows &&rowScales,
                                      Columns &&columnScales, Products &&productsOf) {
  const auto parts = static_cast<std::size_t>(of.parts), ahead = static_cast<std::size_t>(of.ahead);
  std::vector<Tile<float>> totals(parts, zeros<float>(of.m, of.n));
  std::vector<Tile<float>> rows(ahead);
  std::vector<std::vector<Tile<float>>> columns(ahead, std::vector<Tile<float>>(parts));
  const auto load = [&](std::size_t place, const Int &block) {
    if (of.hasRows)
      rows[place] = rowScales(block);
    for (std::size_t part = 0; of.hasColumns && part < parts; ++part)
      columns[place][part] = columnScales(block, static_cast<int>(part));
  };
  for (std::size_t place = 0; place < ahead; ++place)
    load(place, of.first + static_cast<int>(place));
  for (auto block : range(of.first, of.end, of.options)) {
    std::vector<Tile<float>> scales;
    for (std::size_t part = 0; part < parts; ++part)
      scales.push_back(!of.hasColumns ? rows[0]
                       : !of.hasRows  ? columns[0][part]
                                      : rows[0] * columns[0][part]);
    for (std::size_t next = 1; next < ahead; ++next) {
      if (of.hasRows)
        rows[next - 1] = rows[next];
      for (std::size_t part = 0; of.hasColumns && part < parts; ++part)
        columns[next - 1][part] = columns[next][part];
    }
    load(ahead - 1, block + of.ahead);
    const std::vector<Tile<float>> sums = productsOf(block);
    for (std::size_t part = 0; part < parts; ++part)
      totals[part] += sums[part] * scales[part];
  }
  return totals;
}

// The scales of columns [first, first + n) below `end` in a block of K, from [blocks, columns /
// width]. There are none beyond the last block.
struct ColumnScales {
  const View<const float, 2> &scales;
  int width, n;
  bool same; // the columns of a tile lie in one block

  // Where a tile has one scale, it is loaded for each of these rows if there are some: as a scalar
  // it would be moved to a uniform register at once, which waits for it.
  Tile<float> load(const Int &block, const Int &first, const Int &end,
                   const std::optional<Tile<bool>> &rows = {}) const {
    if (same && rows)
      return expand(at(block, first + zeros<Index>(static_cast<int>(rows->extent(0))), *rows), 1);
    if (same)
      return at(block, first, first < end);
    const auto column = first + arange(0, n);
    return expand(at(block, column, column < end), 0);
  }

private:
  Tile<float> at(const Int &block, const Int &column, const Tile<bool> &isThere) const {
    return sectile::load(scales.ptr() + (cast<std::int64_t>(block) * scales.stride(0) +
                                         cast<std::int64_t>(column / width) * scales.stride(1)),
                         isThere && block < scales.extent(0));
  }
};

// Two sets of sums leave no room for larger ones.
constexpr ProductTile scaledTiles[] = {
    {128, 128, 8, 4}, {64, 128, 4, 4}, {64, 64, 4, 4}, {64, 32, 4, 6}};

} // namespace sectile
