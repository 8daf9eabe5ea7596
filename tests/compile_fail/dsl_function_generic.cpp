// A function's parameters have types.
// expect: a function of a kernel is a lambda with typed parameters, not a generic one
#include <sectile/language.h>

sectile::Function twice{"twice", [](auto x) { return x + x; }};
