// A tile has no elements that C++ could pick.
// expect: write sc::slice\(x, axis, begin, extent\) for a part, sc::gather
// only: write sc::slice\(x, axis, begin, extent\) for a part, sc::gather
#include <sectile/language.h>

auto kernel(const sectile::Tile<float> &x) { return x[3] + x[sectile::program_id(0)]; }
