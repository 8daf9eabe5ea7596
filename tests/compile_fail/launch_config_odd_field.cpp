// A field that is no number cannot be part of a kernel's key.
// expect: a kernel's configuration is a plain struct of numbers, bools and enumerations
#include <sectile/sectile.h>
struct Block {
  int sizes[2] = {128, 64};
};
sectile::Kernel nothing{"nothing", [](sectile::Int, const Block &) {}};
void run(const sectile::Stream &stream) { nothing.launch(stream, 1, 2, {.sizes = {64, 32}}); }
