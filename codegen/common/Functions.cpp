// Functions of f32 and f64 numbers. Polynomial coefficients are Chebyshev fits made for the ranges
// named beside them, or the plain Taylor series where that converges fast enough.
#include "codegen/common/FunctionMath.h"
#include <cmath>
#include <numbers>

using namespace llvm;

namespace sectile::functions {

namespace {

constexpr double ln2High = 0x1.62e42fefp-1,
                 ln2Low = 0x1.473de6af278edp-34;                    // 33 bits, then the rest
constexpr float ln2HighF = 0x1.62e4p-1f, ln2LowF = 0x1.7f7d1cp-20f; // 16 bits, then the rest
constexpr float log2eHighF = 0x1.715476p+0f, log2eLowF = 0x1.4ae0cp-26f;

} // namespace

Value *smallExp(const Math &m, Value *r) {
  double coefficients[14], factorial = 1;
  for (int n = 0; n < 14; factorial *= ++n)
    coefficients[13 - n] = 1 / factorial;
  return m.polynomial(r, coefficients);
}

Value *scaled(const Math &m, Value *y, Value *n) {
  Value *half = m.b.CreateAShr(n, 1);
  y = m.b.CreateFMul(y, m.powerOfTwo(half));
  return m.b.CreateFMul(y, m.powerOfTwo(m.b.CreateSub(n, half)));
}

Value *keepNaN(const Math &m, Value *x, Value *result) {
  return m.b.CreateSelect(m.b.CreateFCmpUNO(x, x), x, result);
}

Value *sqrt(Builder &builder, Value *x) {
  return builder.b.CreateUnaryIntrinsic(Intrinsic::sqrt, x);
}

Value *rsqrt(Builder &builder, Value *x) {
  if (x->getType()->isFloatTy())
    return builder.hooks.rsqrt(builder.b, x);
  return builder.b.CreateFDiv(ConstantFP::get(x->getType(), 1), sqrt(builder, x));
}

Value *exp2(Builder &builder, Value *x) {
  Math m(builder, x);
  if (!m.isDouble)
    return m.hooks.exp2(m.b, x);
  Value *bounded = m.clamp(x, -1100, 1100);
  Math::Whole n = m.nearest(bounded);
  Value *fraction = m.b.CreateFMul(m.b.CreateFSub(bounded, n.number), m.number(std::numbers::ln2));
  return keepNaN(m, x, scaled(m, smallExp(m, fraction), n.integer));
}

Value *exp(Builder &builder, Value *x) {
  Math m(builder, x);
  if (m.isDouble) {
    Value *bounded = m.clamp(x, -750, 750);
    Math::Whole n = m.nearest(m.b.CreateFMul(bounded, m.number(std::numbers::log2e)));
    Value *r = m.fma(n.number, -ln2Low, m.fma(n.number, -ln2High, bounded));
    return keepNaN(m, x, scaled(m, smallExp(m, r), n.integer));
  }
  // x · log2(e) = n + f with a small f that is right to the last bit; 2^n is exact. Beyond the
  // clamp f takes the rest, up to infinity.
  Math::Power n = m.nearestPower(m.clamp(m.b.CreateFMul(x, m.number(log2eHighF)), -126, 127));
  Value *f = m.fma(x, log2eLowF, m.fma(x, log2eHighF, m.b.CreateFNeg(n.exponent)));
  return m.b.CreateFMul(m.hooks.exp2(m.b, f), n.power);
}

Value *fastExp(Builder &builder, Value *x) {
  Math m(builder, x);
  return m.hooks.exp2(m.b, m.b.CreateFMul(x, m.number(std::numbers::log2e)));
}

Value *fastDivide(Builder &builder, Value *x, Value *y) {
  return builder.b.CreateFMul(x, builder.hooks.reciprocalNormal(builder.b, y));
}

Value *expm1(Builder &builder, Value *x) {
  // Kahan's: the error of u = e^x cancels between u - 1 and log(u).
  Math m(builder, x);
  Value *u = exp(builder, x), *one = m.number(1);
  Value *minusOne = m.b.CreateFSub(u, one);
  Value *corrected = m.b.CreateFDiv(m.b.CreateFMul(minusOne, x), log(builder, u));
  Value *isSmall = m.b.CreateFCmpOLT(m.abs(x), one);
  Value *result = m.b.CreateSelect(isSmall, corrected, minusOne);
  return m.b.CreateSelect(m.b.CreateFCmpOEQ(u, one), x, result);
}

/// x = 2^exponent · (1 + fraction) with 1 + fraction between √½ and √2, and log(1 + fraction) as
/// fraction - correction. For positive finite x; `finish` mends the others.
namespace {
struct LogParts {
  Value *exponent, *fraction, *correction;
};

LogParts splitLog(const Math &m, Value *x) {
  IRBuilder<> &b = m.b;
  double scale = std::ldexp(1.0, m.mantissaBits() + 1);
  double smallest = m.isDouble ? 0x1p-1022 : 0x1p-126;
  Value *isSubnormal = b.CreateFCmpOLT(x, m.number(smallest));
  Value *scaled = b.CreateSelect(isSubnormal, b.CreateFMul(x, m.number(scale)), x);
  Value *bias = b.CreateSelect(isSubnormal, m.number(-double(m.mantissaBits() + 1)), m.number(0));
  Value *word = m.asBits(scaled);
  Value *root = m.asBits(m.number(std::numbers::sqrt2 / 2));
  Value *exponentBits =
      b.CreateAnd(b.CreateSub(word, root), ~((int64_t(1) << m.mantissaBits()) - 1));
  LogParts parts;
  parts.exponent =
      b.CreateFAdd(b.CreateSIToFP(b.CreateAShr(exponentBits, m.mantissaBits()), m.type), bias);
  Value *f = b.CreateFSub(m.asNumber(b.CreateSub(word, exponentBits)), m.number(1));
  parts.fraction = f;
  // log(1 + f) = 2 atanh(s) with s = f / (2 + f): f - f²/2 + s · (f²/2 + R(s²)).
  Value *s = b.CreateFDiv(f, b.CreateFAdd(f, m.number(2)));
  Value *z = b.CreateFMul(s, s);
  SmallVector<double> terms;
  for (int n = m.isDouble ? 11 : 5; n > 0; --n)
    terms.push_back(2.0 / (2 * n + 1));
  Value *rest = b.CreateFMul(z, m.polynomial(z, terms));
  Value *halfSquare = b.CreateFMul(b.CreateFMul(f, f), m.number(0.5));
  parts.correction = b.CreateFSub(halfSquare, b.CreateFMul(s, b.CreateFAdd(halfSquare, rest)));
  return parts;
}

Value *finishLog(const Math &m, Value *x, Value *result) {
  IRBuilder<> &b = m.b;
  result = b.CreateSelect(b.CreateFCmpOEQ(x, m.infinity()), x, result);
  result = b.CreateSelect(b.CreateFCmpOEQ(x, m.number(0)), b.CreateFNeg(m.infinity()), result);
  return b.CreateSelect(b.CreateFCmpULT(x, m.number(0)), m.notANumber(), result);
}

/// exponent · log_base(2) + log(1 + fraction) · factor.
Value *logToBase(Builder &builder, Value *x, double ofTwo, double factor) {
  Math m(builder, x);
  LogParts parts = splitLog(m, x);
  Value *fraction = m.b.CreateFSub(parts.fraction, parts.correction);
  Value *small = m.b.CreateFMul(fraction, m.number(factor));
  return finishLog(m, x, m.fma(parts.exponent, ofTwo, small));
}
} // namespace

Value *log(Builder &builder, Value *x) {
  Math m(builder, x);
  LogParts parts = splitLog(m, x);
  double high = m.isDouble ? ln2High : ln2HighF, low = m.isDouble ? ln2Low : ln2LowF;
  Value *small = m.fma(parts.exponent, -low, parts.correction);
  small = m.b.CreateFSub(parts.fraction, small);
  return finishLog(m, x, m.fma(parts.exponent, high, small));
}

Value *log2(Builder &builder, Value *x) { return logToBase(builder, x, 1, std::numbers::log2e); }

Value *log10(Builder &builder, Value *x) {
  return logToBase(builder, x, std::numbers::ln2 / std::numbers::ln10, std::numbers::log10e);
}

Value *log1p(Builder &builder, Value *x) {
  Math m(builder, x);
  IRBuilder<> &b = m.b;
  Value *one = m.number(1), *sum = b.CreateFAdd(x, one);
  // What the sum lost, relative to it.
  Value *lost = b.CreateFDiv(b.CreateFSub(x, b.CreateFSub(sum, one)), sum);
  Value *sound = b.CreateAnd(b.CreateFCmpOGT(sum, m.number(0)), b.CreateFCmpOLT(sum, m.infinity()));
  Value *result = b.CreateFAdd(log(builder, sum), b.CreateSelect(sound, lost, m.number(0)));
  return b.CreateSelect(b.CreateFCmpOEQ(x, m.number(0)), x, result);
}

Value *tanh(Builder &builder, Value *x) {
  Math m(builder, x);
  IRBuilder<> &b = m.b;
  Value *magnitude = m.abs(x), *one = m.number(1), *two = m.number(2);
  Value *result;
  if (m.isDouble) {
    Value *e = expm1(
        builder,
        b.CreateFMul(b.CreateBinaryIntrinsic(Intrinsic::minnum, magnitude, m.number(20)), two));
    result = b.CreateFDiv(e, b.CreateFAdd(e, two));
  } else {
    Value *e = exp(builder, b.CreateFMul(magnitude, two));
    Value *large = b.CreateFSub(one, b.CreateFDiv(two, b.CreateFAdd(e, one)));
    // A fit of (tanh(x)/x - 1)/x² over x up to 0.55.
    Value *z = b.CreateFMul(magnitude, magnitude);
    Value *fit =
        m.polynomial(z, {-0.0065492094303515137, 0.021276416510178412, -0.053903966391081704,
                         0.13333085507261854, -0.33333331788333915});
    Value *small = m.fma(b.CreateFMul(fit, z), magnitude, magnitude);
    result = b.CreateSelect(b.CreateFCmpOLT(magnitude, m.number(0.55)), small, large);
  }
  return keepNaN(m, x, b.CreateCopySign(result, x));
}

Value *erf(Builder &builder, Value *x) {
  Math m(builder, x);
  IRBuilder<> &b = m.b;
  // Fits of erf(x)/x over x² up to 1, and of -log(1 - erf(x)) from there to where erf rounds to 1:
  // to 4 in f32, to 6 in f64.
  Value *magnitude = m.abs(x), *square = b.CreateFMul(x, x), *fit, *decay;
  if (m.isDouble) {
    fit =
        m.polynomial(square, {-4.2309458242953378e-12, 8.7090451290531067e-11,
                              -1.216456005728345e-9, 1.4792401209404813e-8, -1.6364642158167615e-7,
                              1.6462045441468419e-6, -1.4925647567519332e-5, 0.00012055332902888735,
                              -0.00085483270219348296, 0.0052239776254232983, -0.026866170645129841,
                              0.1128379167095512, -0.37612638903183752, 1.1283791670955126});
    Value *bounded = b.CreateBinaryIntrinsic(Intrinsic::minnum, magnitude, m.number(6));
    Value *centred = m.fma(bounded, 0.4, m.number(-1.4));
    decay = m.polynomial(centred,
                         {3.245901999030085e-10,  -2.1901845906851097e-9, 5.1951607385372206e-9,
                          -4.8610991029225574e-9, 9.6528252053603727e-10, 3.0414788597569983e-9,
                          -2.7966374245484618e-8, 1.286781347382139e-7,   -3.8251506449279393e-7,
                          9.1779753326693184e-7,  -1.919146618676658e-6,  3.4196471333147523e-6,
                          -4.5653913877192365e-6, 1.4783966569639068e-6,  1.8474346905170144e-5,
                          -9.0901103641757262e-5, 0.0003078195950532894,  -0.00089357655647921244,
                          0.0023739972761078477,  -0.0059537044786857655, 0.014384548330638939,
                          -0.034128411079638966,  0.081650909717799245,   6.0422065921389368,
                          18.165248970912977,     14.112437402148174});
  } else {
    fit =
        m.polynomial(square, {-9.6670445714869964e-6, 0.00011265959025606609,
                              -0.00084840804055351063, 0.0052210318078580228, -0.026865430727670243,
                              0.11283782495236845, -0.3761263846802871, 1.1283791670615434});
    Value *bounded = b.CreateBinaryIntrinsic(Intrinsic::minnum, magnitude, m.number(4));
    decay = m.polynomial(bounded,
                         {-1.6371514145936436e-6, 4.6058042689189779e-5, -0.00059680562566077971,
                          0.0047595962932662646, -0.026421136005663897, 0.11008008294882025,
                          0.63182605155916301, 1.130233434841994, -0.00032013804967769884});
  }
  Value *small = b.CreateFMul(fit, x);
  Value *large = b.CreateFSub(m.number(1), exp(builder, b.CreateFNeg(decay)));
  Value *result =
      b.CreateSelect(b.CreateFCmpOLT(magnitude, m.number(1)), small, b.CreateCopySign(large, x));
  return keepNaN(m, x, result);
}

} // namespace sectile::functions
