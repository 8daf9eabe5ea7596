// Which blocks of a mask of blocks are there: lists of their numbers, so that loops go over these
// and no others.
#pragma once
#include <sectile/flash/visibility.h>

namespace sectile::serving {

// Queries and keys of a block, and what a row of the mask is a block of. Windows as Band has them.
struct BlockListConfig {
  int blockQ = 64, blockK = 64, warps = 2;
  bool left = false, right = false, ofQueries = true;
};

// mask [B, H, rows, columns] -> in each row of list how many columns are there, and then their
// numbers, in order; without those of which nothing is visible through the window.
inline Kernel listBlocks{
    "block_sparse_lists", [](View<const bool, 4> mask, View<std::int32_t, 4> list, Int queries,
                             Int keys, Int left, Int right, const BlockListConfig &config) {
      constexpr int width = 256;
      auto row = program_id(0), head = program_id(1), batch = program_id(2);
      auto from = mask.at(batch, head, row).tile(width);
      auto to = list.at(batch, head, row);
      Int count = 0;
      for (auto chunk : range(0, cdiv(mask.extent(3), width))) {
        auto column = chunk * width + arange(0, width);
        auto present = from.load(chunk) && column < mask.extent(3);
        auto i = config.ofQueries ? broadcast_to(row, width) : column;
        auto j = config.ofQueries ? column : broadcast_to(row, width);
        auto firstQuery = i * config.blockQ + (keys - queries); // the key beside it
        auto lastQuery = minimum((i + 1) * config.blockQ, queries) - 1 + (keys - queries);
        if (config.right)
          present = present && j * config.blockK <= lastQuery + right;
        if (config.left)
          present = present && (j + 1) * config.blockK > firstQuery - left;
        auto through = cumsum(cast<std::int32_t>(present), 0);
        store(to.ptr() + (through + count), cast<std::int32_t>(column), present);
        count += cast<Index>(sum(cast<std::int32_t>(present), 0));
      }
      store(to.ptr(), cast<std::int32_t>(count));
    }};

// Such lists of all query heads, and the mask: [B, Hq, ...].
struct PresentBlocks {
  View<const std::int32_t, 4> lists;
  View<const bool, 4> mask;

  // Of block `block`, of which `own` are a row of the mask: blocks of which `parts` are a column.
  flash::BlockList of(const flash::Sequence &sequence, const Int &block, int own, int parts) const {
    const Int row = block / own;
    const auto list = lists.at(sequence.batch, sequence.head, row);
    const auto number = [=](const Int &at) {
      return cast<Index>(load(list.ptr() + cast<std::int64_t>(at) * list.stride(0)));
    };
    return {
        .count = number(0) * parts,
        .blockOf = [=](const Int &step) { return number(step / parts + 1) * parts + step % parts; },
        .has =
            [=, view = mask.at(sequence.batch, sequence.head, row)](const Int &other) {
              return load(view.ptr() + cast<std::int64_t>(other / parts) * view.stride(0));
            }};
  }
};

} // namespace sectile::serving
