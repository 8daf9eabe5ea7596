// Only bools have an opposite.
// expect: ! works on tiles of bool: write x == 0
#include <sectile/language.h>

auto kernel(const sectile::Tile<float> &x) { return !x; }
