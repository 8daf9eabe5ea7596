// Which tile a product takes where warpgroups multiply: the model that the defaults of these
// kernels share.
#pragma once
#include <cstdint>
#include <span>

namespace sectile {

struct WarpgroupTile {
  std::int64_t m, n, warps, stages;
  double rate; // the part of the chip's speed that large products reach with it, measured
};

struct ChosenTile {
  WarpgroupTile tile;
  std::int64_t count; // of tiles in all matrices
};

// The tile that makes `batches` products of `rows` by `columns` fastest on so many
// multiprocessors. The last wave takes as long as the others, and a tile computes beyond the edge,
// too.
ChosenTile fastestTile(std::span<const WarpgroupTile> tiles, std::int64_t batches,
                       std::int64_t rows, std::int64_t columns, std::int64_t multiprocessors);

} // namespace sectile
