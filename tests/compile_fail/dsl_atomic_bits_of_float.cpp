// There are no bits of floats to combine.
// expect: atomic_and, atomic_or and atomic_xor work on integers
#include <sectile/language.h>

void kernel(sectile::View<float, 1> x) { x.tile(8).atomic_or(0, 1); }
