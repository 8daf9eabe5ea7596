// A field without a name would have no value in the kernel.
// expect: SECTILE_STRUCT must name every field of the struct, in their order
#include <sectile/language.h>
struct Pair {
  sectile::Int a, b;
};
SECTILE_STRUCT(Pair, a)
