// A model of waves: how long the tiles of a product take on all multiprocessors.
#include "kernels/matmul/WarpgroupTiles.h"
#include "kernels/Use.h"

using namespace sectile;

ChosenTile sectile::fastestTile(std::span<const WarpgroupTile> tiles, std::int64_t batches,
                                std::int64_t rows, std::int64_t columns,
                                std::int64_t multiprocessors) {
  ChosenTile best{tiles.front(), 0};
  double most = -1;
  for (const WarpgroupTile &tile : tiles) {
    const std::int64_t count = batches * ceilDiv(rows, tile.m) * ceilDiv(columns, tile.n);
    const double computed =
        double(ceilDiv(count, multiprocessors)) * double(multiprocessors * tile.m * tile.n);
    const double speed = tile.rate * double(batches * rows * columns) / computed;
    if (speed > most)
      best = {tile, count}, most = speed;
  }
  return best;
}
