// A function's parameters are traced values and constants.
// expect: a parameter of a function of a kernel is a Tile, a Ptr, a View, a struct
#include <sectile/language.h>

sectile::Function first{"first", [](float *p) { (void)p; }};
void call(float *p) { first(p); }
