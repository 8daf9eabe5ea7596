// The standard library's functions work on numbers of the host.
// expect: std::abs works on numbers of the host, not on traced values: write sc::abs\(x\)
// expect: std::exp works on numbers of the host, not on traced values: write sc::exp\(x\)
// expect: std::exp2 works on numbers of the host, not on traced values: write sc::exp2\(x\)
// expect: std::log works on numbers of the host, not on traced values: write sc::log\(x\)
// expect: std::log2 works on numbers of the host, not on traced values: write sc::log2\(x\)
// expect: std::sin works on numbers of the host, not on traced values: write sc::sin\(x\)
// expect: std::cos works on numbers of the host, not on traced values: write sc::cos\(x\)
// expect: std::sqrt works on numbers of the host, not on traced values: write sc::sqrt\(x\)
// expect: std::tanh works on numbers of the host, not on traced values: write sc::tanh\(x\)
// expect: std::erf works on numbers of the host, not on traced values: write sc::erf\(x\)
// expect: std::floor works on numbers of the host, not on traced values: write sc::floor\(x\)
// expect: std::ceil works on numbers of the host, not on traced values: write sc::ceil\(x\)
// expect: std::round works on numbers of the host, not on traced values: write sc::round\(x\)
// expect: std::rint works on numbers of the host, not on traced values: write sc::rint\(x\)
// expect: std::tan works on numbers of the host, not on traced values: write sc::tan\(x\)
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sectile/language.h>

void kernel(const sectile::Tile<float> &x, sectile::Int n) {
  std::abs(n);
  std::exp(x);
  std::exp2(x);
  std::log(x);
  std::log2(x);
  std::sin(x);
  std::cos(x);
  std::sqrt(x);
  std::tanh(x);
  std::erf(x);
  std::floor(x);
  std::ceil(x);
  std::round(x);
  std::rint(x);
  std::tan(x);
}
