// Numbers of the host do not make a tile by themselves, and nothing else is an operand.
// expect: one operand at least is a tile: sc::full<T>\(number\) makes one of a number
// expect: an operand is a tile or a number
#include <sectile/language.h>

void kernel(const sectile::Tile<float> &x) {
  sectile::where(x < 0, 1, 2);
  sectile::maximum(x, "0");
}
