// A function is traced once, so it keeps nothing.
// expect: the lambda of a function of a kernel is not mutable
#include <sectile/language.h>

sectile::Function count{"count", [calls = 0](sectile::Int i) mutable { return i + ++calls; }};
void call(sectile::Int i) { count(i); }
