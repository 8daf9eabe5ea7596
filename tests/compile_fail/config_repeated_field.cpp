// A field named twice leaves another out.
// expect: SECTILE_CONFIG must name every field of the configuration, in their order
#include <sectile/config.h>
struct Tile {
  int m = 1, n = 2;
};
SECTILE_CONFIG(Tile, m, m)
