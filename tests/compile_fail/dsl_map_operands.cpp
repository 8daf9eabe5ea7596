// The function of a map takes what the tiles hold.
// expect: the function of sc::map takes one number of each tile's element type
#include <sectile/language.h>

void kernel(const sectile::Tile<float> &x) {
  sectile::map([](sectile::Float a, sectile::Float b) { return a + b; }, x);
}
