// A View<const T, N> is read only.
// expect: a View<const T, N> cannot be stored to
#include <sectile/language.h>

void kernel(sectile::View<const float, 1> x) { x.tile(8).store(0, sectile::zeros<float>(8)); }
