// A combiner takes two numbers.
// expect: the combiner of sc::associative_scan takes two numbers of the tile's type and returns one
#include <sectile/language.h>

void kernel(sectile::Tile<float> x) {
  sectile::associative_scan(x, 0, [](auto a) { return a; });
}
