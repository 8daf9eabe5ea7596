// Which blocks of a mask of blocks are there: lists of their numbers, so that loops go over these
// and no others.
#pragma once
#include <sectile/sectile.h>

namespace sectile::serving {

// Queries and keys of a block, and what a row of the mask is a block of.
struct BlockListConfig {
  int blockQ = 64, blockK = 64, warps = 2;
  bool causal = false, ofQueries = true;
};
SECTILE_CONFIG(BlockListConfig, blockQ, blockK, warps, causal, ofQueries)

// mask [B, H, rows, columns] -> in each row of list the numbers of the columns that are there, in
// order, and in counts how many; in causal order without those of which nothing is visible.
inline Kernel listBlocks{
    "block_sparse_lists",
    [](View<const bool, 4> mask, View<std::int32_t, 4> list, View<std::int32_t, 3> counts,
       Int queries, Int keys, const BlockListConfig &config) {
      constexpr int width = 256;
      auto row = program_id(0), head = program_id(1), batch = program_id(2);
      auto from = mask.at(batch, head, row).tile(width);
      auto to = list.at(batch, head, row);
      Int count = 0;
      for (auto chunk : range(0, cdiv(mask.extent(3), width))) {
        auto column = chunk * width + arange(0, width);
        auto present = from.load(chunk) && column < mask.extent(3);
        if (config.causal) {
          auto i = config.ofQueries ? broadcast_to(row, width) : column;
          auto j = config.ofQueries ? column : broadcast_to(row, width);
          auto last = minimum((i + 1) * config.blockQ, queries) - 1;
          present = present && j * config.blockK <= last + (keys - queries);
        }
        auto through = cumsum(cast<std::int32_t>(present), 0);
        store(to.ptr() + (through + (count - 1)), cast<std::int32_t>(column), present);
        count += cast<Index>(sum(cast<std::int32_t>(present), 0));
      }
      store(counts.at(batch, head).ptr() + row, cast<std::int32_t>(count));
    }};

// A row of such a list, seen in tiles of which `parts` make a block.
struct PresentTiles {
  View<const std::int32_t, 1> list;
  Int count; // tiles
  int parts = 1;

  PresentTiles(const View<const std::int32_t, 2> &lists, const View<const std::int32_t, 1> &counts,
               const Int &row, int parts)
      : list(lists.at(row)),
        count(cast<Index>(load(counts.ptr() + cast<std::int64_t>(row) * counts.stride(0))) * parts),
        parts(parts) {}

  Int tile(const Int &step) const {
    auto block = load(list.ptr() + cast<std::int64_t>(step / parts) * list.stride(0));
    return cast<Index>(block) * parts + step % parts;
  }
};

} // namespace sectile::serving
