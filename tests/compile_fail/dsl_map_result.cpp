// The function of a map gives numbers of the kernel.
// expect: the function of sc::map returns a number of the kernel
#include <sectile/language.h>

void kernel(const sectile::Tile<float> &x) {
  sectile::map([](sectile::Float) { return 1; }, x);
}
