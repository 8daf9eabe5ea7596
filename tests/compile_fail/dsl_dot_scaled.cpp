// The microscaling formats are small floats.
// expect: sc::dot_scaled takes tiles of float8_e4m3, float8_e5m2, half, bfloat16, or
#include <sectile/language.h>

void multiply(sectile::Tile<float> a, sectile::Tile<sectile::half> b) {
  sectile::dot_scaled(a, sectile::no_scale, b, sectile::no_scale);
}
