// Inverse trigonometric functions, and the hyperbolic ones with their inverses.
#include "codegen/common/FunctionMath.h"
#include <numbers>

using namespace llvm;

namespace sectile::functions {

namespace {

constexpr double pi = std::numbers::pi;
// What π/2 has beyond an f64, and an f32.
constexpr double halfPiLow = 0x1.1a62633145c07p-54, halfPiLowF = -0x1.777a5cp-25;

Value *halfPiOf(const Math &m) { return m.number(pi / 2); }
Value *halfPiRest(const Math &m) { return m.number(m.isDouble ? halfPiLow : halfPiLowF); }

/// asin(x) for x up to ½ of either sign, whose square is z: a fit of (asin(x)/x - 1)/x².
Value *smallAsin(const Math &m, Value *x, Value *z) {
  Value *fit =
      m.isDouble
          ? m.polynomial(z, {0.028757851367421565, -0.014851887071247203, 0.017400879442694022,
                             0.0054575067186403583, 0.010322814350185779, 0.011479177415184906,
                             0.013971212973552933, 0.017352392720869973, 0.022372172942149888,
                             0.030381944138531247, 0.04464285714635543, 0.074999999999984329,
                             0.16666666666666668})
          : m.polynomial(z, {0.03369084720283012, 0.017149238357677253, 0.031100662735494568,
                             0.044599401528512184, 0.075000945434974235, 0.16666666337430907});
  return m.fma(m.b.CreateFMul(fit, z), x, x);
}

/// Of |x| > ½: √((1 - |x|) / 2), whose asin is half of π/2 - asin(|x|), and its square.
std::pair<Value *, Value *> complement(const Math &m, Value *magnitude) {
  Value *square = m.b.CreateFMul(m.b.CreateFSub(m.number(1), magnitude), m.number(0.5));
  return {m.b.CreateUnaryIntrinsic(Intrinsic::sqrt, square), square};
}

/// atan(t) for t between 0 and 1: a fit of (atan(t)/t - 1)/t².
Value *smallAtan(const Math &m, Value *t) {
  Value *z = m.b.CreateFMul(t, t);
  Value *fit =
      m.isDouble
          ? m.polynomial(z,
                         {-1.1832505417555693e-5, 0.0001368724853148122,  -0.00075184725269738215,
                          0.002622977891906089,   -0.0065756833441516986, 0.012756172907694297,
                          -0.020238706986393516,  0.027567942297344677,   -0.033750132001619734,
                          0.038726402140426325,   -0.043081196553304713,  0.047520867735766561,
                          -0.052612657357094544,  0.058820749563712946,   -0.066666364357776927,
                          0.076923053546786548,   -0.090909089695574031,  0.11111111107234799,
                          -0.14285714285648404,   0.19999999999999553,    -0.33333333333333333})
          : m.polynomial(z, {0.0014886919393047596, -0.0091446297605923953, 0.026305001110062377,
                             -0.048960514027090666, 0.070319142500299659, -0.089318267773813144,
                             0.11088261628735159, -0.1428400379473353, 0.19999949321141887,
                             -0.33333333081073254});
  return m.fma(m.b.CreateFMul(fit, z), t, t);
}

} // namespace

Value *asin(Builder &builder, Value *x) {
  Math m(builder, x);
  IRBuilder<> &b = m.b;
  Value *magnitude = m.abs(x);
  Value *isLarge = b.CreateFCmpOGT(magnitude, m.number(0.5));
  auto [root, square] = complement(m, magnitude);
  Value *t = b.CreateSelect(isLarge, root, magnitude);
  Value *z = b.CreateSelect(isLarge, square, b.CreateFMul(x, x));
  Value *angle = smallAsin(m, t, z);
  Value *fromTop = b.CreateFAdd(m.fma(angle, -2, halfPiOf(m)), halfPiRest(m));
  return b.CreateCopySign(b.CreateSelect(isLarge, fromTop, angle), x);
}

Value *acos(Builder &builder, Value *x) {
  Math m(builder, x);
  IRBuilder<> &b = m.b;
  Value *magnitude = m.abs(x);
  Value *isLarge = b.CreateFCmpOGT(magnitude, m.number(0.5));
  Value *isNegative = b.CreateFCmpOLT(x, m.number(0));
  auto [root, square] = complement(m, magnitude);
  Value *t = b.CreateSelect(isLarge, root, x);
  Value *angle = smallAsin(m, t, b.CreateSelect(isLarge, square, b.CreateFMul(x, x)));
  Value *middle = b.CreateFSub(halfPiOf(m), b.CreateFSub(angle, halfPiRest(m)));
  Value *twice = b.CreateFMul(angle, m.number(2));
  Value *fromPi =
      b.CreateFSub(m.number(pi), b.CreateFSub(twice, b.CreateFMul(halfPiRest(m), m.number(2))));
  return b.CreateSelect(isLarge, b.CreateSelect(isNegative, fromPi, twice), middle);
}

Value *atan(Builder &builder, Value *x) {
  Math m(builder, x);
  IRBuilder<> &b = m.b;
  Value *magnitude = m.abs(x);
  Value *isLarge = b.CreateFCmpOGT(magnitude, m.number(1));
  Value *t = b.CreateSelect(isLarge, b.CreateFDiv(m.number(1), magnitude), magnitude);
  Value *angle = smallAtan(m, t);
  Value *fromTop = b.CreateFSub(halfPiOf(m), b.CreateFSub(angle, halfPiRest(m)));
  return b.CreateCopySign(b.CreateSelect(isLarge, fromTop, angle), x);
}

Value *atan2(Builder &builder, Value *y, Value *x) {
  Math m(builder, x);
  IRBuilder<> &b = m.b;
  Value *height = m.abs(y), *width = m.abs(x), *one = m.number(1), *zero = m.number(0);
  Value *isSteep = b.CreateFCmpOGT(height, width);
  Value *low = b.CreateSelect(isSteep, width, height);
  Value *high = b.CreateSelect(isSteep, height, width);
  Value *t = b.CreateFDiv(low, high);
  t = b.CreateSelect(b.CreateFCmpOEQ(high, zero), zero, t);
  t = b.CreateSelect(b.CreateFCmpOEQ(low, m.infinity()), one, t);
  Value *angle = smallAtan(m, t);
  Value *rest = halfPiRest(m);
  angle = b.CreateSelect(isSteep, b.CreateFSub(halfPiOf(m), b.CreateFSub(angle, rest)), angle);
  Value *isLeft = b.CreateICmpSLT(m.asBits(x), m.integer(0));
  Value *fromPi = b.CreateFSub(m.number(pi), b.CreateFSub(angle, b.CreateFMul(rest, m.number(2))));
  angle = b.CreateCopySign(b.CreateSelect(isLeft, fromPi, angle), y);
  return b.CreateSelect(b.CreateFCmpUNO(x, y), m.notANumber(), angle);
}

Value *sinh(Builder &builder, Value *x) {
  Math m(builder, x);
  IRBuilder<> &b = m.b;
  Value *magnitude = m.abs(x), *one = m.number(1), *half = m.number(0.5);
  // e^x may overflow where its half does not.
  Value *root = exp(builder, b.CreateFMul(magnitude, half));
  Value *large = b.CreateFMul(b.CreateFMul(root, half), root);
  Value *e = expm1(builder, magnitude);
  Value *small = b.CreateFMul(b.CreateFAdd(e, b.CreateFDiv(e, b.CreateFAdd(e, one))), half);
  Value *isLarge = b.CreateFCmpOGT(magnitude, m.number(20));
  return keepNaN(m, x, b.CreateCopySign(b.CreateSelect(isLarge, large, small), x));
}

Value *cosh(Builder &builder, Value *x) {
  Math m(builder, x);
  IRBuilder<> &b = m.b;
  Value *half = m.number(0.5);
  Value *root = exp(builder, b.CreateFMul(m.abs(x), half));
  Value *large = b.CreateFMul(b.CreateFMul(root, half), root);
  Value *small = b.CreateFDiv(half, b.CreateFMul(root, root));
  return b.CreateFAdd(large, small);
}

Value *asinh(Builder &builder, Value *x) {
  Math m(builder, x);
  IRBuilder<> &b = m.b;
  Value *magnitude = m.abs(x), *one = m.number(1);
  Value *isLarge = b.CreateFCmpOGT(magnitude, m.number(0x1p28));
  Value *large = b.CreateFAdd(log(builder, magnitude), m.number(std::numbers::ln2));
  Value *square = b.CreateFMul(magnitude, magnitude);
  Value *root = b.CreateUnaryIntrinsic(Intrinsic::sqrt, b.CreateFAdd(square, one));
  Value *small =
      log1p(builder, b.CreateFAdd(magnitude, b.CreateFDiv(square, b.CreateFAdd(root, one))));
  return keepNaN(m, x, b.CreateCopySign(b.CreateSelect(isLarge, large, small), x));
}

Value *acosh(Builder &builder, Value *x) {
  Math m(builder, x);
  IRBuilder<> &b = m.b;
  Value *isLarge = b.CreateFCmpOGT(x, m.number(0x1p28));
  Value *large = b.CreateFAdd(log(builder, x), m.number(std::numbers::ln2));
  Value *above = b.CreateFSub(x, m.number(1));
  Value *root = b.CreateUnaryIntrinsic(Intrinsic::sqrt,
                                       b.CreateFMul(above, b.CreateFAdd(above, m.number(2))));
  Value *result = b.CreateSelect(isLarge, large, log1p(builder, b.CreateFAdd(above, root)));
  return b.CreateSelect(b.CreateFCmpULT(x, m.number(1)), m.notANumber(), result);
}

Value *atanh(Builder &builder, Value *x) {
  Math m(builder, x);
  IRBuilder<> &b = m.b;
  Value *magnitude = m.abs(x);
  Value *ratio =
      b.CreateFDiv(b.CreateFMul(magnitude, m.number(2)), b.CreateFSub(m.number(1), magnitude));
  Value *result = b.CreateFMul(log1p(builder, ratio), m.number(0.5));
  return keepNaN(m, x, b.CreateCopySign(result, x));
}

} // namespace sectile::functions
