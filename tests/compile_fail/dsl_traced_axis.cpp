// The axes of a reduction are known while tracing.
// expect: an axis is a number of the host, not a traced one
#include <sectile/language.h>

auto kernel(const sectile::Tile<float> &x, const sectile::Int &n) { return sectile::sum(x, n); }
