// The standard library's functions work on numbers of the host.
// expect: std::asin works on numbers of the host, not on traced values: write sc::asin\(x\)
// expect: std::acos works on numbers of the host, not on traced values: write sc::acos\(x\)
// expect: std::atan works on numbers of the host, not on traced values: write sc::atan\(x\)
// expect: std::sinh works on numbers of the host, not on traced values: write sc::sinh\(x\)
// expect: std::cosh works on numbers of the host, not on traced values: write sc::cosh\(x\)
// expect: std::asinh works on numbers of the host, not on traced values: write sc::asinh\(x\)
// expect: std::acosh works on numbers of the host, not on traced values: write sc::acosh\(x\)
// expect: std::atanh works on numbers of the host, not on traced values: write sc::atanh\(x\)
// expect: std::expm1 works on numbers of the host, not on traced values: write sc::expm1\(x\)
// expect: std::log1p works on numbers of the host, not on traced values: write sc::log1p\(x\)
// expect: std::log10 works on numbers of the host, not on traced values: write sc::log10\(x\)
// expect: std::cbrt works on numbers of the host, not on traced values: write sc::cbrt\(x\)
// expect: std::trunc works on numbers of the host, not on traced values: write sc::trunc\(x\)
// expect: std::isnan works on numbers of the host, not on traced values: write sc::isnan\(x\)
// expect: std::isinf works on numbers of the host, not on traced values: write sc::isinf\(x\)
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sectile/language.h>

void kernel(const sectile::Tile<float> &x) {
  std::asin(x);
  std::acos(x);
  std::atan(x);
  std::sinh(x);
  std::cosh(x);
  std::asinh(x);
  std::acosh(x);
  std::atanh(x);
  std::expm1(x);
  std::log1p(x);
  std::log10(x);
  std::cbrt(x);
  std::trunc(x);
  std::isnan(x);
  std::isinf(x);
}
