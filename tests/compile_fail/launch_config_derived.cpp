// The fields of a base are not all fields: with them alone, other values would run the same code.
// expect: a kernel's configuration is a plain struct of numbers, bools and enumerations
#include <sectile/sectile.h>
struct Block {
  int size = 128;
};
struct Larger : Block {
  int more = 1;
};
sectile::Kernel nothing{"nothing", [](sectile::Int, const Larger &) {}};
