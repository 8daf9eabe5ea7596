// The fields of a struct within have names, too.
// expect: a field of SECTILE_STRUCT is a Ptr, a View, an Int, a Tile<T> \(one number\) or a struct
#include <sectile/language.h>
struct Inner {
  sectile::Int a, b;
};
struct Outer {
  Inner inner;
};
SECTILE_STRUCT(Outer, inner)
