// Only what fits in a word can be part of a key.
// expect: a field of a kernel's configuration is a number, a bool or an enumeration
#include <sectile/config.h>
struct Tile {
  std::string name;
};
SECTILE_CONFIG(Tile, name)
