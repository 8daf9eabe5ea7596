// A view has tiles, not elements.
// expect: a view is read and written in tiles: v.tile\(m, n\).load\(i, j\)
// only: a view is read and written in tiles: v.tile\(m, n\).load\(i, j\)
#include <sectile/language.h>

void kernel(const sectile::View<float, 2> &x, const sectile::Int &i) { x(i, i) = x(0, 0); }
