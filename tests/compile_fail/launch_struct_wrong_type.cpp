// A field takes what it takes as a parameter.
// expect: a kernel's Int takes an integer
#include <sectile/sectile.h>
struct Pair {
  sectile::Int a, b;
};
SECTILE_STRUCT(Pair, a, b)
sectile::Kernel nothing{"nothing", [](Pair) {}};
void run(const sectile::Stream &stream) { nothing.launch(stream, 1, {1, 2.5}); }
