// A tile is not made of its extents.
// expect: write sc::zeros<T>\(m, n\) or sc::full<T>\(value, m, n\)
// only: write sc::zeros<T>\(m, n\) or sc::full<T>\(value, m, n\)
#include <sectile/language.h>

sectile::Tile<float> sums(64, 32);
