// Indices are integers.
// expect: sc::gather takes indices of integers
#include <sectile/language.h>

void kernel(sectile::Tile<float> x) { sectile::gather(x, x, 0); }
