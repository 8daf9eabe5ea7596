// Rounding is told for conversions between floats only.
// expect: rounding and overflow are told for conversions between floats
#include <sectile/language.h>

void kernel(const sectile::Tile<float> &x) {
  sectile::cast<int>(x, sectile::Rounding::toward_zero);
}
