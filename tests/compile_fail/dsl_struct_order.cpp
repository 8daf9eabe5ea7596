// Arguments in braces go to the fields as they are declared.
// expect: SECTILE_STRUCT must name every field of the struct, in their order
#include <sectile/language.h>
struct Pair {
  sectile::Int a, b;
};
SECTILE_STRUCT(Pair, b, a)
