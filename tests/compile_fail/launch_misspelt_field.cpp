// A field that the configuration does not have.
// expect: (does not refer to any field|has no non-static data member named|no matching)
#include <sectile/sectile.h>
struct Block {
  int size = 128;
};
SECTILE_CONFIG(Block, size)
sectile::Kernel nothing{"nothing", [](sectile::Int, const Block &) {}};
void run(const sectile::Stream &stream) { nothing.launch(stream, 1, 2, {.sise = 64}); }
