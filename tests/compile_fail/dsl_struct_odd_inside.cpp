// The fields of a struct within are traced values, too.
// expect: a field of SECTILE_STRUCT is a Ptr, a View, an Int, a Tile<T> \(one number\) or a struct
#include <sectile/language.h>
struct Inner {
  sectile::Int a;
  int b;
};
struct Outer {
  Inner inner;
};
SECTILE_STRUCT(Outer, inner)
