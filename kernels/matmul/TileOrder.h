// In which order the programs of a product do its tiles.
#pragma once
#include <algorithm>
#include <optional>
#include <sectile/sectile.h>

namespace sectile {

// Tiles as grouped_order has them. Those of a cluster's programs, below each other, are counted as
// one: a program may do several in turn.
class TileOrder {
public:
  TileOrder(const Int &rows, const Int &columns, int group, int cluster)
      : columns(columns), rows(cdiv(rows, cluster)), group(std::max(group / cluster, 1)),
        cluster(cluster) {}

  Int first() const { return program_id(0) / cluster; }
  Int step() const { return num_programs(0) / cluster; }
  Int count() const { return rows * columns; }
  // Of this program: the tile's row, which may lie beyond the last, and column.
  std::array<Int, 2> at(const Int &number) const {
    auto [i, j] = grouped_order(number, {rows, columns}, group);
    return {ownOf(i), j};
  }
  // Of what each program of a cluster has one of, this program's, counted one by one.
  Int ownOf(const Int &number) const { return number * cluster + program_id(0) % cluster; }
  // Calls visit(number) for the only tile of this program, or for each of a persistent one.
  template <class Visit> void forTiles(bool persistent, Visit &&visit) const {
    if (persistent)
      for (auto tile : range(first(), count(), step()))
        visit(tile);
    else
      visit(first());
  }

private:
  Int columns, rows;
  int group, cluster;
};

// Of a loop over the steps of a product: with loads by a producer partition, or as the compiler
// decides.
inline LoopOptions copiedApart(bool wanted) {
  return {.warp_specialize = wanted ? std::optional(true) : std::nullopt};
}

// Programs for so many tiles, of which `most` run side by side: whole clusters.
constexpr std::int64_t persistentPrograms(std::int64_t tiles, std::int64_t most, int cluster) {
  return std::min(tiles, std::max<std::int64_t>(most / cluster, 1) * cluster);
}

} // namespace sectile
