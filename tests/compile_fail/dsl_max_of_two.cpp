// The larger of two is not the largest along an axis.
// expect: it reduces a tile along axes: write sc::maximum\(a, b\)
// only: it reduces a tile along axes: write sc::maximum\(a, b\)
#include <sectile/language.h>

auto kernel(const sectile::Tile<float> &x) {
  return sectile::max(x, 0.0f) + sectile::max(0, x) + sectile::max(x, x);
}
