// A configuration with a field that SECTILE_CONFIG does not name would be compiled once and then
// used for all values. expect: SECTILE_CONFIG must name every field
#include <sectile/config.h>
struct Tile {
  int m = 1, n = 2;
};
SECTILE_CONFIG(Tile, m)
