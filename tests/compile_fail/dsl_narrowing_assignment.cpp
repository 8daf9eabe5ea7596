// A tile does not turn into another type by itself.
// expect: a tile of one type does not become a tile of another by itself: write sc::cast
#include <sectile/language.h>

void kernel(sectile::Tile<sectile::half> x) { x = x + sectile::zeros<float>(8); }
