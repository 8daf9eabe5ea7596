// Nor do those of elementary.h.
// expect: no matching function for call to .tan
// expect: no matching function for call to .asin
// expect: no matching function for call to .acos
// expect: no matching function for call to .atan
// expect: no matching function for call to .sinh
// expect: no matching function for call to .cosh
// expect: no matching function for call to .asinh
// expect: no matching function for call to .acosh
// expect: no matching function for call to .atanh
// expect: no matching function for call to .expm1
// expect: no matching function for call to .log1p
// expect: no matching function for call to .log10
// expect: no matching function for call to .exp10
// expect: no matching function for call to .cbrt
// expect: no matching function for call to .trunc
#include <sectile/language.h>

void kernel(const sectile::Tile<int> &x) {
  sectile::tan(x);
  sectile::asin(x);
  sectile::acos(x);
  sectile::atan(x);
  sectile::sinh(x);
  sectile::cosh(x);
  sectile::asinh(x);
  sectile::acosh(x);
  sectile::atanh(x);
  sectile::expm1(x);
  sectile::log1p(x);
  sectile::log10(x);
  sectile::exp10(x);
  sectile::cbrt(x);
  sectile::trunc(x);
}
