// An assertion's condition is a bool.
// expect: sc::device_assert takes a condition of bool
#include <sectile/language.h>

void kernel(sectile::Int n) { sectile::device_assert(n, "n is there"); }
