// Only integers have bits to combine.
// expect: sc::xor_sum works on bits
#include <sectile/language.h>

void kernel(sectile::Tile<float> x) { sectile::xor_sum(x, 0); }
