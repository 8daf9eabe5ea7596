// A tile of a view has as many extents as the view has axes.
// expect: a tile of a View<T, N> has N extents: x.tile\(m, n\) for two axes
#include <sectile/language.h>

auto kernel(const sectile::View<float, 2> &x) { return x.tile(64).load(0); }
