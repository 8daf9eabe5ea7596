// Promises are about integers and pointers.
// expect: promises are about integers and pointers
#include <sectile/language.h>

void kernel(sectile::Tile<float> x) { x = sectile::multiple_of(x, 4); }
