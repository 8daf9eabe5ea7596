// The standard library's functions work on numbers of the host.
// expect: std::isfinite works on numbers of the host, not on traced values: write sc::isfinite\(x\)
// expect: std::pow works on numbers of the host, not on traced values: write sc::pow\(a, b\)
// expect: std::atan2 works on numbers of the host, not on traced values: write sc::atan2\(a, b\)
// expect: std::copysign works on numbers of the host, not on traced values: write sc::copysign\(a,
// b\) expect: std::fmod works on numbers of the host, not on traced values: write sc::fmod\(a, b\)
// expect: std::remainder works on numbers of the host, not on traced values: write
// sc::remainder\(a, b\) expect: std::ldexp works on numbers of the host, not on traced values:
// write sc::ldexp\(x, n\) expect: std::fma works on numbers of the host, not on traced values:
// write sc::fma\(a, b, c\) expect: std::max works on numbers of the host, not on traced values:
// write sc::maximum\(a, b\) expect: std::min works on numbers of the host, not on traced values:
// write sc::minimum\(a, b\) expect: std::clamp works on numbers of the host, not on traced values:
// write sc::clamp\(x, low, high\)
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sectile/language.h>

void kernel(const sectile::Tile<float> &x) {
  std::isfinite(x);
  std::pow(x, 0.0f);
  std::atan2(x, 0.0f);
  std::copysign(x, 0.0f);
  std::fmod(x, 0.0f);
  std::remainder(x, 0.0f);
  std::ldexp(x, 2);
  std::fma(x, 0.0f, 1.0f);
  std::max(x, 0.0f);
  std::min(x, 0.0f);
  std::clamp(x, 0.0f, 1.0f);
}
