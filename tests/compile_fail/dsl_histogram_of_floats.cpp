// Bins are numbers of integers.
// expect: sc::histogram counts integers
#include <sectile/language.h>

void kernel(sectile::Tile<float> x) { sectile::histogram(x, 8); }
