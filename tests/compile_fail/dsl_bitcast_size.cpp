// Bits keep their number.
// expect: sc::bitcast keeps the size of the elements
#include <sectile/language.h>

auto kernel(const sectile::Tile<float> &x) { return sectile::bitcast<std::int64_t>(x); }
