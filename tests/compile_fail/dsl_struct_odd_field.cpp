// A number of the host belongs into the configuration.
// expect: a field of SECTILE_STRUCT is a Ptr, a View, an Int, a Tile<T>
#include <sectile/language.h>
struct Scaled {
  sectile::Int at;
  float factor;
};
SECTILE_STRUCT(Scaled, at, factor)
