// Functions of floats do not convert integers by themselves.
// expect: no matching function for call to .exp
#include <sectile/language.h>

auto kernel(const sectile::Tile<int> &x) { return sectile::exp(x); }
