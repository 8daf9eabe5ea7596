// Which tile a product takes where warpgroups multiply: the model that the defaults of these
// kernels share.
#pragma once
#include <cstdint>
#include <span>

namespace sectile {

struct WarpgroupTile {
  std::int64_t m, n, warps, stages;
  double rate; // the part of the chip's speed that large products reach with it, measured
  std::int64_t lines = 1; // of shared memory, 128 bytes, that a step is deep
};

// For products of f16, on an H100: the larger a tile, the less is read for each multiplication.
// The last is for few rows, of which reading the weights takes the time.
constexpr WarpgroupTile halfTiles[] = {{128, 256, 8, 3, 1},   {128, 128, 8, 4, 0.92},
                                       {64, 128, 4, 4, 0.75}, {128, 64, 8, 4, 0.75},
                                       {64, 64, 4, 6, 0.6},   {64, 32, 4, 6, 0.35, 2}};

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
