// Sines, cosines and tangents. An angle of any size is first reduced to the nearest quarter turn.
#include "codegen/common/FunctionMath.h"
#include <numbers>

using namespace llvm;

namespace sectile::functions {

namespace {

/// π/2 in parts that add up to more digits than the type has.
constexpr double halfPiF[] = {0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50};
constexpr double halfPi[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b8p-110};
ArrayRef<double> halfPiOf(const Math &m) {
  return m.isDouble ? ArrayRef(halfPi) : ArrayRef(halfPiF);
}

/// The bits of 2/π after the binary point, most significant first.
constexpr uint64_t twoOverPi[] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
    0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
    0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
};

/// x - q·π/2 with the nearest q, part by part of π/2. For angles up to `largestUsual`.
ReducedAngle reduceUsual(const Math &m, Value *x) {
  Math::Whole q = m.nearest(m.b.CreateFMul(x, m.number(2 / std::numbers::pi)));
  Value *rest = x, *minus = m.b.CreateFNeg(q.number);
  for (double part : halfPiOf(m))
    rest = m.fma(minus, part, rest);
  return {rest, m.b.CreateTrunc(q.integer, m.b.getInt32Ty())};
}
double largestUsual(const Math &m) { return m.isDouble ? 0x1p30 : 48039; }

/// Payne and Hanek's reduction of a larger angle: with |x| = mantissa · 2^exponent, the bits of 2/π
/// that make multiples of four quarter turns are skipped, and the next three words are enough: the
/// rest has 137 bits behind the point in f64, 70 in f32, of which fewer than 63 and 33 are zeros
/// for any number of the type.
ReducedAngle reduceLarge(const Math &m, Value *x) {
  IRBuilder<> &b = m.b;
  const unsigned width = m.bits->getBitWidth(), mantissaBits = m.mantissaBits();
  auto fshl = [&](Value *high, Value *low, Value *by) {
    return b.CreateIntrinsic(Intrinsic::fshl, {m.bits}, {high, low, by});
  };
  Value *word = m.asBits(m.abs(x));
  Value *field = b.CreateLShr(word, mantissaBits);
  Value *mantissa = b.CreateOr(b.CreateAnd(word, (uint64_t(1) << mantissaBits) - 1),
                               m.integer(int64_t(1) << mantissaBits));

  // A word of zeros and the bits of 2/π. The first bit wanted has the number `from` in them.
  const int64_t offset = int64_t(width) - 2 - m.bias() - mantissaBits;
  Value *from = b.CreateAdd(field, m.integer(offset));
  const unsigned largest = unsigned((1 << (width - 1 - mantissaBits)) - 1 + offset) / width;
  SmallVector<Value *> words = {m.integer(0)};
  for (unsigned i = 0; words.size() < largest + 4; ++i) {
    const unsigned first = i * width;
    words.push_back(ConstantInt::get(
        m.bits, APInt(64, twoOverPi[first / 64]).extractBits(width, 64 - width - first % 64)));
  }
  Value *skipped = b.CreateLShr(from, Log2_32(width));
  for (unsigned step = 1 << Log2_32(largest); step > 0; step /= 2) {
    Value *isSkipped = b.CreateIsNotNull(b.CreateAnd(skipped, step));
    SmallVector<Value *> left;
    for (unsigned i = 0; i < std::min<unsigned>(words.size(), 4 + step - 1); ++i)
      left.push_back(i + step < words.size() ? b.CreateSelect(isSkipped, words[i + step], words[i])
                                             : words[i]);
    words = std::move(left);
  }
  Value *shift = b.CreateAnd(from, width - 1);

  // The product's lowest three words: quarter turns modulo 4 in the first two bits, then the rest.
  auto *twice = IntegerType::get(b.getContext(), 2 * width);
  Value *product[3], *carry = ConstantInt::get(twice, 0), *factor = b.CreateZExt(mantissa, twice);
  for (int i = 2; i >= 0; --i) {
    Value *bits = fshl(words[i], words[i + 1], shift);
    Value *sum = b.CreateAdd(b.CreateMul(factor, b.CreateZExt(bits, twice)), carry);
    product[i] = b.CreateTrunc(sum, m.bits);
    carry = b.CreateLShr(sum, width);
  }
  Value *quarters = b.CreateLShr(product[0], width - 2), *two = m.integer(2);
  Value *rest[3] = {fshl(product[0], product[1], two), fshl(product[1], product[2], two),
                    b.CreateShl(product[2], two)};
  // From ½ on the next quarter turn is nearer.
  Value *isBelow = b.CreateICmpSLT(rest[0], m.integer(0));
  quarters = b.CreateAdd(quarters, b.CreateZExt(isBelow, m.bits));
  Value *flipped = b.CreateAShr(rest[0], width - 1);
  for (Value *&part : rest)
    part = b.CreateXor(part, flipped);

  // As a float of twice the digits, then in radians.
  Value *zeros = b.CreateBinaryIntrinsic(
      Intrinsic::umin, b.CreateBinaryIntrinsic(Intrinsic::ctlz, rest[0], b.getFalse()),
      m.integer(width - 1));
  Value *first = fshl(rest[0], rest[1], zeros), *second = fshl(rest[1], rest[2], zeros);
  const uint64_t beyond = (uint64_t(1) << (width - 1 - mantissaBits)) - 1;
  Value *high = b.CreateUIToFP(b.CreateAnd(first, m.integer(int64_t(~beyond))), m.type);
  Value *low = m.fma(b.CreateUIToFP(second, m.type), std::ldexp(1.0, -int(width)),
                     b.CreateUIToFP(b.CreateAnd(first, m.integer(int64_t(beyond))), m.type));
  Value *angle = b.CreateFMul(high, m.number(halfPiOf(m)[0]));
  Value *lost = m.fma(high, halfPiOf(m)[0], b.CreateFNeg(angle));
  lost = m.fma(high, halfPiOf(m)[1], m.fma(low, halfPiOf(m)[0], lost));
  Value *scale = m.powerOfTwo(b.CreateSub(m.integer(-int64_t(width)), zeros));
  angle = b.CreateFMul(b.CreateFAdd(angle, lost), scale);

  Value *isNegative = b.CreateICmpSLT(m.asBits(x), m.integer(0));
  angle = b.CreateSelect(b.CreateXor(isBelow, isNegative), b.CreateFNeg(angle), angle);
  angle = b.CreateSelect(b.CreateFCmpOLT(m.abs(x), m.infinity()), angle, m.notANumber());
  quarters = b.CreateTrunc(quarters, b.getInt32Ty());
  return {angle, b.CreateSelect(isNegative, b.CreateNeg(quarters), quarters)};
}

ReducedAngle reduce(Builder &builder, Value *x) {
  Math m(builder, x);
  IRBuilder<> &b = m.b;
  const ReducedAngle usual = reduceUsual(m, x);
  // Few kernels ever get to large angles.
  BasicBlock *before = b.GetInsertBlock();
  Function *function = before->getParent();
  auto *large = BasicBlock::Create(b.getContext(), "large", function);
  auto *after = BasicBlock::Create(b.getContext(), "reduced", function);
  b.CreateCondBr(b.CreateFCmpOGT(m.abs(x), m.number(largestUsual(m))), large, after);
  b.SetInsertPoint(large);
  const ReducedAngle other = reduceLarge(m, x);
  b.CreateBr(after);
  b.SetInsertPoint(after);
  auto merge = [&](Value *ofUsual, Value *ofLarge) {
    PHINode *phi = b.CreatePHI(ofUsual->getType(), 2);
    phi->addIncoming(ofUsual, before);
    phi->addIncoming(ofLarge, large);
    return phi;
  };
  Value *rest = merge(usual.rest, other.rest);
  return {rest, merge(usual.quarters, other.quarters)};
}

ReducedAngle reduced(Builder &builder, Value *x) {
  ReducedAngle angle = builder.angles.lookup(x);
  if (!angle.rest)
    builder.angles[x] = angle = reduce(builder, x);
  return angle;
}

/// sin(angle + quarters · π/2).
Value *sine(const Math &m, const ReducedAngle &angle, unsigned quarters) {
  IRBuilder<> &b = m.b;
  Value *rest = angle.rest, *quarter = b.CreateAdd(angle.quarters, b.getInt32(quarters));
  Value *z = b.CreateFMul(rest, rest);
  // Fits of (sin(x)/x - 1)/x² and (cos(x) - 1 + x²/2)/x⁴ over x² up to (π/4)².
  Value *sineFit =
      m.isDouble
          ? m.polynomial(z, {-7.5860947896726201e-13, 1.6058521349954986e-10,
                             -2.5052106167335706e-8, 2.7557319219150782e-6, -0.00019841269841264822,
                             0.0083333333333333314, -0.16666666666666667})
          : m.polynomial(z, {-0.00019585373206693021, 0.0083327365591771302, -0.16666664601754114});
  Value *cosineFit =
      m.isDouble
          ? m.polynomial(z, {4.7455370173192584e-14, -1.1470455178216907e-11, 2.0876755754879596e-9,
                             -2.7557319221298087e-7, 2.4801587301584511e-5, -0.0013888888888888888,
                             0.041666666666666667})
          : m.polynomial(z, {2.4545419078353295e-5, -0.0013888291300556933, 0.04166666459882798});
  Value *sine = m.fma(b.CreateFMul(sineFit, z), rest, rest);
  Value *cosine = m.fma(b.CreateFMul(z, z), cosineFit, m.fma(z, -0.5, m.number(1)));
  Value *isOdd = b.CreateTrunc(quarter, b.getInt1Ty());
  Value *result = b.CreateSelect(isOdd, cosine, sine);
  Value *isNegative = b.CreateIsNotNull(b.CreateAnd(quarter, 2));
  return b.CreateSelect(isNegative, b.CreateFNeg(result), result);
}
} // namespace

/// Zero keeps its sign, which the reduction loses.
static Value *keepZero(const Math &m, Value *x, Value *result) {
  return m.b.CreateSelect(m.b.CreateFCmpOEQ(x, m.number(0)), x, result);
}

Value *sin(Builder &builder, Value *x) {
  Math m(builder, x);
  return keepZero(m, x, sine(m, reduced(builder, x), 0));
}
Value *cos(Builder &builder, Value *x) { return sine(Math(builder, x), reduced(builder, x), 1); }
Value *tan(Builder &builder, Value *x) {
  Math m(builder, x);
  ReducedAngle angle = reduced(builder, x);
  Value *above = sine(m, angle, 0), *below = sine(m, angle, 1);
  return keepZero(m, x, m.b.CreateFDiv(above, below));
}

} // namespace sectile::functions
