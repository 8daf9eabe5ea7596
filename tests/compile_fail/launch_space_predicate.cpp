// A predicate of a space that takes something else.
// expect: the predicate of a space takes \(const Config &, const LaunchOptions &\) and, if it
#include <sectile/autotune.h>
#include <sectile/sectile.h>

namespace sc = sectile;

struct Tile {
  int m = 32;
};
SECTILE_CONFIG(Tile, m)

auto tiles =
    sc::space(&Tile::m, {32, 64}).where([](const Tile &tile, int rows) { return tile.m <= rows; });
