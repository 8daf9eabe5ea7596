// Functions of floats do not convert integers by themselves.
// expect: no matching function for call to .exp
// expect: no matching function for call to .exp2
// expect: no matching function for call to .log
// expect: no matching function for call to .log2
// expect: no matching function for call to .sin
// expect: no matching function for call to .cos
// expect: no matching function for call to .sqrt
// expect: no matching function for call to .rsqrt
// expect: no matching function for call to .erf
// expect: no matching function for call to .tanh
// expect: no matching function for call to .sigmoid
// expect: no matching function for call to .floor
// expect: no matching function for call to .ceil
// expect: no matching function for call to .round
// expect: no matching function for call to .rint
// expect: no matching function for call to .softmax
#include <sectile/language.h>

void kernel(const sectile::Tile<int> &x) {
  sectile::exp(x);
  sectile::exp2(x);
  sectile::log(x);
  sectile::log2(x);
  sectile::sin(x);
  sectile::cos(x);
  sectile::sqrt(x);
  sectile::rsqrt(x);
  sectile::erf(x);
  sectile::tanh(x);
  sectile::sigmoid(x);
  sectile::floor(x);
  sectile::ceil(x);
  sectile::round(x);
  sectile::rint(x);
  sectile::softmax(x);
}
