// A struct takes an argument for each field.
// expect: in braces one argument for each field
#include <sectile/sectile.h>
struct Pair {
  sectile::Int a, b;
};
SECTILE_STRUCT(Pair, a, b)
sectile::Kernel nothing{"nothing", [](Pair) {}};
void run(const sectile::Stream &stream) { nothing.launch(stream, 1, {1, 2, 3}); }
