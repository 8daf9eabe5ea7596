// Integers are always finite.
// expect: no matching function for call to .isnan
// expect: no matching function for call to .isinf
// expect: no matching function for call to .isfinite
#include <sectile/language.h>

void kernel(const sectile::Tile<int> &x) {
  sectile::isnan(x);
  sectile::isinf(x);
  sectile::isfinite(x);
}
