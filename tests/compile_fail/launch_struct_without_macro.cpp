// A struct at the end is a configuration or one of traced values.
// expect: SECTILE_STRUCT\(Type, field, ...\) after a struct of traced values
#include <sectile/sectile.h>
struct Pair {
  sectile::Int a, b;
};
sectile::Kernel nothing{"nothing", [](sectile::Int, Pair) {}};
