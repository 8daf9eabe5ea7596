// Numbers of the host do not make a tile by themselves, and nothing else is an operand.
// expect: one operand at least is a tile: sc::full<T>\(number\) makes one of a number
// expect: no tile has elements of this type
// expect: an operand is a tile or a number
#include <sectile/language.h>

void kernel(const sectile::Tile<float> &x) {
  sectile::maximum(1, 2);
  sectile::where(x < 0, 1.0L, 2.0L);
  sectile::maximum(x, "0");
}
