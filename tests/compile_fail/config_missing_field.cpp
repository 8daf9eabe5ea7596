// A configuration with an unnamed field would be compiled once and then used for all its values.
// expect: SECTILE_CONFIG must name every field
#include <sectile/config.h>
struct Tile {
  int m = 1, n = 2;
};
SECTILE_CONFIG(Tile, m)
