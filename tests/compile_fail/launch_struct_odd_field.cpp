// A struct at the end is a configuration or one of traced values, never both.
// expect: a plain struct of Ptr, View, Int, Tile<T> and such structs is a parameter
#include <sectile/sectile.h>
struct Scaled {
  sectile::Int at;
  float factor;
};
sectile::Kernel nothing{"nothing", [](sectile::Int, Scaled) {}};
