// The standard library's functions work on numbers of the host.
// expect: std::isfinite works on numbers of the host, .*: write sc::isfinite\(x\)
// expect: std::pow works on numbers of the host, .*: write sc::pow\(a, b\)
// expect: std::atan2 works on numbers of the host, .*: write sc::atan2\(a, b\)
// expect: std::copysign works on numbers of the host, .*: write sc::copysign\(a, b\)
// expect: std::fmod works on numbers of the host, .*: write sc::fmod\(a, b\)
// expect: std::remainder works on numbers of the host, .*: write sc::remainder\(a, b\)
// expect: std::ldexp works on numbers of the host, .*: write sc::ldexp\(x, n\)
// expect: std::fma works on numbers of the host, .*: write sc::fma\(a, b, c\)
// expect: std::max works on numbers of the host, .*: write sc::maximum\(a, b\)
// expect: std::min works on numbers of the host, .*: write sc::minimum\(a, b\)
// expect: std::clamp works on numbers of the host, .*: write sc::clamp\(x, low, high\)
// expect: std::fabs works on numbers of the host, .*: write sc::abs\(x\)
// expect: std::nearbyint works on numbers of the host, .*: write sc::rint\(x\)
// expect: std::fmax works on numbers of the host, .*: write sc::maximum\(a, b\)
// expect: std::fmin works on numbers of the host, .*: write sc::minimum\(a, b\)
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
  std::fabs(x);
  std::nearbyint(x);
  std::fmax(x, 0.0f);
  std::fmin(x, 0.0f);
}
