// Philox has the rounds that are known to pass the tests of its authors.
// expect: sc::philox has 7 or 10 rounds
#include <sectile/language.h>

auto kernel(const sectile::Tile<std::int64_t> &x) { return sectile::philox<4>(1, x); }
