// Tiles, memory and views hold what chips compute with; views have axes.
// expect: the elements of a tile are bool, integers
// expect: the elements of memory are bool, integers
// expect: a view has 1 to 8 axes
#include <sectile/language.h>

sectile::Tile<long double> tile;
sectile::Ptr<char[3]> memory;
void kernel(sectile::View<float, 9> view) { (void)view; }
sectile::View<float, 9> view;
