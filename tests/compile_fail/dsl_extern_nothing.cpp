// A function of a library is called for each element of something.
// expect: sc::extern_call takes a tile at least
#include <sectile/language.h>

auto kernel() { return sectile::extern_call<float>("answer", "lib.bc"); }
