// The shape of a tile is known while tracing.
// expect: an extent, an axis or a bound of sc::arange is a number of the host
#include <sectile/language.h>

void kernel(sectile::Int n) { sectile::arange(0, n); }
