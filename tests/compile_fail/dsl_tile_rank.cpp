// A tile of a view has as many extents as the view has axes. The error is in the caller's line, and
// calls on what tile() would give are no further ones.
// expect: dsl_tile_rank.cpp:8:.*a tile of a View<T, N> has N extents: x.tile\(m, n\) for two axes
// only: a tile of a View<T, N> has N extents
#include <sectile/language.h>

void kernel(const sectile::View<float, 2> &x, const sectile::View<float, 2> &y) {
  y.tile(64, 64).store(0, 0, x.tile(64).load(sectile::program_id(0), 0));
}
