// A configuration whose fields Sectile does not know.
// expect: write SECTILE_CONFIG
#include <sectile/sectile.h>
struct Block {
  int size = 128;
};
sectile::Kernel nothing{"nothing", [](sectile::Int, const Block &) {}};
void run(const sectile::Stream &stream) { nothing.launch(stream, 1, 2, {.size = 64}); }
