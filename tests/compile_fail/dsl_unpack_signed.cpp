// Bits are unpacked from unsigned integers.
// expect: no matching function for call to .unpack_bits
#include <sectile/language.h>

auto kernel(const sectile::Tile<int> &x) { return sectile::unpack_bits(x); }
