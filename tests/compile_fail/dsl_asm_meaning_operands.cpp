// The meaning of assembly stands before the operands, and is of results.
// expect: the meaning of sc::inline_asm stands before the operands and takes one number of each
// expect: the meaning of sc::inline_asm says what its results are, and this text has none
#include <sectile/language.h>

void kernel(const sectile::Tile<float> &x) {
  auto square = [](sectile::Float y) { return y * y; };
  sectile::inline_asm<float>("mul.f32 $0, $1, $2;", "=f,f,f", square, x, x);
  sectile::inline_asm<>("prefetch.global.L2 [$0];", "l", {.pure = false}, square, x);
}
