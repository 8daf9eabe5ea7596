// The meaning of assembly gives what the text does.
// expect: the meaning of sc::inline_asm returns a number of the result's type
#include <sectile/language.h>

void kernel(const sectile::Tile<float> &x) {
  sectile::inline_asm<float>(
      "ex2.approx.f32 $0, $1;", "=f,f", [](sectile::Float y) { return y > 0; }, x);
}
