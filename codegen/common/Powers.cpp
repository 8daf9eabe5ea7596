// Powers, cube roots and remainders of floats.
#include "codegen/common/FunctionMath.h"
#include <cmath>
#include <numbers>

using namespace llvm;

namespace sectile::functions {

namespace {

/// A number as a sum of two, of which the second is what the first leaves over.
struct Double {
  Value *high, *low;
};

Double fastSum(const Math &m, Value *large, Value *small) {
  Value *sum = m.b.CreateFAdd(large, small);
  return {sum, m.b.CreateFSub(small, m.b.CreateFSub(sum, large))};
}

Double sum(const Math &m, Value *x, Value *y) {
  IRBuilder<> &b = m.b;
  Value *sum = b.CreateFAdd(x, y), *part = b.CreateFSub(sum, x);
  Value *lost = b.CreateFSub(x, b.CreateFSub(sum, part));
  return {sum, b.CreateFAdd(lost, b.CreateFSub(y, part))};
}

/// x · y, the low parts in one step.
Double product(const Math &m, Double x, Double y) {
  IRBuilder<> &b = m.b;
  Value *high = b.CreateFMul(x.high, y.high);
  Value *low = m.fma(x.high, y.high, b.CreateFNeg(high));
  low = m.fma(x.high, y.low, low);
  return {high, m.fma(x.low, y.high, low)};
}

Double constant(const Math &m, double high, double low) {
  if (m.isDouble)
    return {m.number(high), m.number(low)};
  auto rounded = float(high);
  return {m.number(rounded), m.number(high - rounded)};
}

/// log2(x) for positive finite x, half as many digits again as its type has, and more.
Double preciseLog2(const Math &m, Value *x) {
  IRBuilder<> &b = m.b;
  unsigned mantissa = m.mantissaBits();
  Value *smallest = m.number(m.isDouble ? 0x1p-1022 : 0x1p-126);
  Value *isSubnormal = b.CreateFCmpOLT(x, smallest);
  Value *up = b.CreateFMul(x, m.number(std::ldexp(1.0, int(mantissa) + 1)));
  Value *word = m.asBits(b.CreateSelect(isSubnormal, up, x));
  Value *bias = b.CreateSelect(isSubnormal, m.number(-double(mantissa + 1)), m.number(0));
  // x = 2^exponent · f with f between √½ and √2.
  Value *root = m.asBits(m.number(std::numbers::sqrt2 / 2));
  Value *exponentBits = b.CreateAnd(b.CreateSub(word, root), ~((int64_t(1) << mantissa) - 1));
  Value *exponent =
      b.CreateFAdd(b.CreateSIToFP(b.CreateAShr(exponentBits, mantissa), m.type), bias);
  Value *f = m.asNumber(b.CreateSub(word, exponentBits));
  // log(f) = 2 atanh(s) = 2 s (1 + s²/3 + s⁴/5 + …) with s = (f - 1) / (f + 1).
  Value *above = b.CreateFSub(f, m.number(1));
  Double below = sum(m, f, m.number(1));
  Double s;
  s.high = b.CreateFDiv(above, below.high);
  Value *minus = b.CreateFNeg(s.high);
  s.low = b.CreateFDiv(m.fma(minus, below.low, m.fma(minus, below.high, above)), below.high);
  Double square = product(m, s, s);
  SmallVector<double> terms;
  for (int n = m.isDouble ? 12 : 6; n > 1; --n)
    terms.push_back(1.0 / (2 * n + 1));
  Value *rest =
      b.CreateFMul(b.CreateFMul(square.high, square.high), m.polynomial(square.high, terms));
  Double third = product(m, square, constant(m, 1.0 / 3, 0x1.5555555555555p-56));
  Double series = fastSum(m, third.high, rest);
  series.low = b.CreateFAdd(series.low, third.low);
  Double factor = fastSum(m, m.number(1), series.high);
  factor.low = b.CreateFAdd(factor.low, series.low);
  // 2 / log(2)
  Double logarithm =
      product(m, product(m, s, factor), constant(m, 0x1.71547652b82fep+1, 0x1.777d0ffda0d24p-55));
  Double result = sum(m, exponent, logarithm.high);
  return fastSum(m, result.high, b.CreateFAdd(result.low, logarithm.low));
}

} // namespace

Value *pow(Builder &builder, Value *x, Value *y) {
  Math m(builder, x);
  IRBuilder<> &b = m.b;
  Value *zero = m.number(0), *one = m.number(1), *infinity = m.infinity();
  Value *base = m.abs(x), *size = m.abs(y);
  Double logarithm = preciseLog2(m, base);
  // 2^(n + f), n whole; far outside of the type's range any n does.
  double limit = m.isDouble ? 1200 : 200;
  Value *exponent = b.CreateFMul(y, logarithm.high);
  Value *low = m.fma(y, logarithm.low, m.fma(y, logarithm.high, b.CreateFNeg(exponent)));
  Value *isInside = b.CreateFCmpOLT(m.abs(exponent), m.number(limit));
  low = b.CreateSelect(isInside, low, zero);
  exponent = m.clamp(exponent, -limit, limit);
  Math::Whole n = m.nearest(exponent);
  Value *fraction = b.CreateFAdd(b.CreateFSub(exponent, n.number), low);
  Value *power = m.isDouble ? smallExp(m, b.CreateFMul(fraction, m.number(std::numbers::ln2)))
                            : m.hooks.exp2(b, fraction);
  Value *result = scaled(m, power, n.integer);

  Value *falls = b.CreateFCmpOLT(y, zero);
  result =
      b.CreateSelect(b.CreateFCmpOEQ(base, zero), b.CreateSelect(falls, infinity, zero), result);
  result = b.CreateSelect(b.CreateFCmpOEQ(base, infinity), b.CreateSelect(falls, zero, infinity),
                          result);
  Value *isOne = b.CreateFCmpOEQ(base, one);
  Value *grows = b.CreateXor(b.CreateFCmpOGT(base, one), falls);
  Value *extreme = b.CreateSelect(isOne, one, b.CreateSelect(grows, infinity, zero));
  result = b.CreateSelect(b.CreateFCmpOEQ(size, infinity), extreme, result);
  // Negative bases: whole exponents only, odd ones keep the sign.
  auto isWhole = [&](Value *v) {
    return b.CreateFCmpOEQ(v, b.CreateUnaryIntrinsic(Intrinsic::trunc, v));
  };
  Value *whole = isWhole(y);
  Value *odd = b.CreateAnd(whole, b.CreateNot(isWhole(b.CreateFMul(y, m.number(0.5)))));
  Value *isNegative = b.CreateICmpSLT(m.asBits(x), m.integer(0));
  result = b.CreateSelect(b.CreateAnd(isNegative, odd), b.CreateFNeg(result), result);
  Value *hasNone = b.CreateAnd(b.CreateFCmpOLT(x, zero), b.CreateNot(whole));
  hasNone = b.CreateAnd(hasNone, b.CreateFCmpOLT(base, infinity));
  hasNone = b.CreateOr(hasNone, b.CreateFCmpUNO(x, y));
  result = b.CreateSelect(hasNone, m.notANumber(), result);
  Value *always = b.CreateOr(b.CreateFCmpOEQ(y, zero), b.CreateFCmpOEQ(x, one));
  return b.CreateSelect(always, one, result);
}

Value *cbrt(Builder &builder, Value *x) {
  Math m(builder, x);
  IRBuilder<> &b = m.b;
  Value *magnitude = m.abs(x);
  // Subnormal numbers times 2^54, large ones by it: the root's factor is 2^18.
  Value *isSmall = b.CreateFCmpOLT(magnitude, m.number(m.isDouble ? 0x1p-1022 : 0x1p-126));
  Value *isLarge = b.CreateFCmpOGT(magnitude, m.number(m.isDouble ? 0x1p1000 : 0x1p100));
  auto scale = [&](Value *v, double up, double down) {
    Value *factor = b.CreateSelect(isLarge, m.number(down), m.number(1));
    return b.CreateFMul(v, b.CreateSelect(isSmall, m.number(up), factor));
  };
  Value *value = scale(magnitude, 0x1p54, 0x1p-54);
  // A third of the exponent, and of the mantissa after it: right to a twentieth.
  int64_t third = int64_t(std::ldexp(m.bias() * 2.0 / 3 - 0.033, int(m.mantissaBits())));
  Value *t = m.asNumber(b.CreateAdd(b.CreateUDiv(m.asBits(value), m.integer(3)), m.integer(third)));
  for (unsigned step = 0; step < (m.isDouble ? 3 : 2); ++step) {
    // Halley's: t · (t³ + 2 x) / (2 t³ + x), as t plus a correction.
    Value *cube = b.CreateFMul(b.CreateFMul(t, t), t);
    Value *above = b.CreateFSub(value, cube);
    Value *below = m.fma(cube, 2, value);
    t = m.fma(t, b.CreateFDiv(above, below), t);
  }
  t = scale(t, 0x1p-18, 0x1p18);
  Value *isPlain = b.CreateAnd(b.CreateFCmpOGT(magnitude, m.number(0)),
                               b.CreateFCmpOLT(magnitude, m.infinity()));
  return b.CreateSelect(isPlain, b.CreateCopySign(t, x), x);
}

namespace {

/// A positive number as an integer times 2^exponent, the integer's leading bit in its place.
std::pair<Value *, Value *> normalized(const Math &m, Value *word) {
  IRBuilder<> &b = m.b;
  unsigned mantissa = m.mantissaBits();
  Value *exponent = b.CreateLShr(word, mantissa);
  Value *isSubnormal = b.CreateIsNull(exponent);
  Value *zeros = b.CreateBinaryIntrinsic(Intrinsic::ctlz, word, b.getFalse());
  Value *shift = b.CreateSub(zeros, m.integer(m.bits->getBitWidth() - 1 - mantissa));
  Value *raised = b.CreateShl(word, b.CreateSelect(isSubnormal, shift, m.integer(0)));
  Value *implicit = m.integer(int64_t(1) << mantissa);
  Value *usual = b.CreateOr(b.CreateAnd(word, m.integer((int64_t(1) << mantissa) - 1)), implicit);
  return {b.CreateSelect(isSubnormal, raised, usual),
          b.CreateSelect(isSubnormal, b.CreateSub(m.integer(1), shift), exponent)};
}

} // namespace

Value *remainder(Builder &builder, Value *x, Value *y) {
  // Long division, some bits of the quotient at once: nothing is rounded.
  Math m(builder, x);
  IRBuilder<> &b = m.b;
  unsigned mantissa = m.mantissaBits(), width = m.bits->getBitWidth();
  Value *magnitude = m.abs(x), *divisor = m.abs(y);
  Value *fails =
      b.CreateOr(b.CreateFCmpUEQ(divisor, m.number(0)), b.CreateFCmpUEQ(magnitude, m.infinity()));
  fails = b.CreateOr(fails, b.CreateFCmpUNO(x, y));
  Value *isSmaller = b.CreateFCmpOLT(magnitude, divisor);
  Value *isKnown = b.CreateOr(fails, isSmaller);
  auto [dividend, exponent] = normalized(m, m.asBits(magnitude));
  auto [by, byExponent] = normalized(m, m.asBits(divisor));
  by = b.CreateSelect(isKnown, m.integer(1), by);
  Value *first = b.CreateURem(dividend, by);
  Value *distance = b.CreateSelect(isKnown, m.integer(0), b.CreateSub(exponent, byExponent));

  BasicBlock *before = b.GetInsertBlock();
  Function *function = before->getParent();
  auto *header = BasicBlock::Create(b.getContext(), "remainder", function);
  auto *body = BasicBlock::Create(b.getContext(), "remainder.step", function);
  auto *after = BasicBlock::Create(b.getContext(), "remainder.end", function);
  b.CreateBr(header);
  b.SetInsertPoint(header);
  PHINode *rest = b.CreatePHI(m.bits, 2), *left = b.CreatePHI(m.bits, 2);
  rest->addIncoming(first, before);
  left->addIncoming(distance, before);
  b.CreateCondBr(b.CreateICmpSGT(left, m.integer(0)), body, after);
  b.SetInsertPoint(body);
  Value *step = b.CreateBinaryIntrinsic(Intrinsic::smin, left, m.integer(width - 1 - mantissa));
  rest->addIncoming(b.CreateURem(b.CreateShl(rest, step), by), body);
  left->addIncoming(b.CreateSub(left, step), body);
  b.CreateBr(header);
  b.SetInsertPoint(after);

  // Back to a float, which may be subnormal.
  Value *zeros = b.CreateBinaryIntrinsic(Intrinsic::ctlz, rest, b.getFalse());
  Value *shift = b.CreateSub(zeros, m.integer(width - 1 - mantissa));
  Value *newExponent = b.CreateSub(byExponent, shift);
  Value *isNormal = b.CreateICmpSGT(newExponent, m.integer(0));
  // Subnormal numbers; of a subnormal divisor too, whose own shift comes off again.
  Value *zero = m.integer(0), *less = b.CreateSub(byExponent, m.integer(1));
  Value *up = b.CreateSelect(isNormal, shift, b.CreateBinaryIntrinsic(Intrinsic::smax, less, zero));
  Value *down = b.CreateSelect(isNormal, zero,
                               b.CreateBinaryIntrinsic(Intrinsic::smax, b.CreateNeg(less), zero));
  Value *code = b.CreateLShr(b.CreateShl(rest, up), down);
  Value *field = b.CreateSelect(isNormal, b.CreateSub(newExponent, m.integer(1)), m.integer(0));
  code = b.CreateAdd(code, b.CreateShl(field, mantissa));
  code = b.CreateSelect(b.CreateIsNull(rest), zero, code);
  Value *result = b.CreateCopySign(m.asNumber(code), x);
  result = b.CreateSelect(isSmaller, x, result);
  return b.CreateSelect(fails, m.notANumber(), result);
}

} // namespace sectile::functions
