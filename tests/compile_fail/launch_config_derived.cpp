// The fields of a base are not all fields: with them alone, other values would run the same code.
// expect: write SECTILE_CONFIG\(Type, field, ...\) after the kernel's configuration struct
#include <sectile/sectile.h>
struct Block {
  int size = 128;
};
SECTILE_CONFIG(Block, size)
struct Larger : Block {
  int more = 1;
};
sectile::Kernel nothing{"nothing", [](sectile::Int, const Larger &) {}};
