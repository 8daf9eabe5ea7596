// Conversions between floats by integer arithmetic.
#include "codegen/common/SmallFloats.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace llvm;

namespace sectile {

FloatFormat FloatFormat::of(mlir::Type type) {
  return TypeSwitch<mlir::Type, FloatFormat>(type)
      .Case<mlir::Float16Type>([](auto) { return FloatFormat{16, 10, 15, true, true, 0x7bff}; })
      .Case<mlir::BFloat16Type>([](auto) { return FloatFormat{16, 7, 127, true, true, 0x7f7f}; })
      .Case<mlir::Float8E4M3FNType>([](auto) { return FloatFormat{8, 3, 7, false, true, 0x7e}; })
      .Case<mlir::Float8E5M2Type>([](auto) { return FloatFormat{8, 2, 15, true, true, 0x7b}; })
      .Case<mlir::Float8E4M3FNUZType>([](auto) { return FloatFormat{8, 3, 8, false, false, 0x7f}; })
      .Case<mlir::Float8E5M2FNUZType>(
          [](auto) { return FloatFormat{8, 2, 16, false, false, 0x7f}; })
      .Case<mlir::Float8E4M3B11FNUZType>(
          [](auto) { return FloatFormat{8, 3, 11, false, false, 0x7f}; });
}

Value *widen(IRBuilder<> &b, Value *bits, FloatFormat format) {
  Value *wide = b.CreateZExt(bits, b.getInt32Ty());
  Value *magnitude = b.CreateAnd(wide, format.sign() - 1);
  Value *sign = b.CreateShl(b.CreateAnd(wide, format.sign()), 32 - format.bits);
  // Exponent and mantissa in place are the value with the wrong bias; multiplying mends it, also
  // for subnormal numbers.
  Value *scaled = b.CreateBitCast(b.CreateShl(magnitude, 23 - format.mantissaBits), b.getFloatTy());
  Value *value =
      b.CreateFMul(scaled, ConstantFP::get(b.getFloatTy(), std::ldexp(1.0, 127 - format.bias)));
  Value *valueBits = b.CreateBitCast(value, b.getInt32Ty());
  Value *quiet = b.getInt32(0x7fc00000);
  if (format.hasInfinity) {
    Value *isSpecial = b.CreateICmpUGT(magnitude, b.getInt32(format.largest));
    Value *special = b.CreateOr(b.CreateShl(magnitude, 23 - format.mantissaBits), 0x7f800000);
    valueBits = b.CreateSelect(isSpecial, special, valueBits);
  } else {
    Value *code = format.hasMinusZero ? magnitude : wide;
    valueBits = b.CreateSelect(b.CreateICmpEQ(code, b.getInt32(format.nan())), quiet, valueBits);
  }
  return b.CreateBitCast(b.CreateOr(valueBits, sign), b.getFloatTy());
}

Value *narrow(IRBuilder<> &b, Value *x, FloatFormat format, FloatRounding how) {
  bool nearest = how.rounding == tile::Rounding::NearestEven;
  Value *bits = b.CreateBitCast(x, b.getInt32Ty());
  Value *magnitude = b.CreateAnd(bits, 0x7fffffff);
  unsigned dropped = 23 - format.mantissaBits;
  // Normal numbers: round the mantissa, to nearest by adding half a unit less a tie's even bit,
  // then move the exponent to the new bias. The code after the largest is infinity, or NaN.
  Value *rounded = magnitude;
  if (nearest) {
    Value *odd = b.CreateAnd(b.CreateLShr(magnitude, dropped), 1);
    rounded = b.CreateAdd(b.CreateAdd(magnitude, b.getInt32((1u << (dropped - 1)) - 1)), odd);
  }
  Value *result =
      b.CreateLShr(b.CreateSub(rounded, b.getInt32(uint32_t(127 - format.bias) << 23)), dropped);
  Value *infinity = b.getInt32(0x7f800000), *most = b.getInt32(format.largest);
  if (!how.saturate) {
    Value *beyond = b.getInt32(format.largest + 1);
    most = nearest ? beyond : b.CreateSelect(b.CreateICmpEQ(magnitude, infinity), beyond, most);
  }
  result = b.CreateBinaryIntrinsic(Intrinsic::umin, result, most);
  // Subnormal ones; those of a format with f32's exponents are no exception.
  if (format.bias != 127) {
    Value *subnormal;
    if (nearest) {
      // Adding a number whose last place is their unit rounds in the adder.
      auto *shift = cast<ConstantFP>(ConstantFP::get(
          b.getFloatTy(), std::ldexp(1.0, 24 - int(format.mantissaBits) - format.bias)));
      Value *sum = b.CreateFAdd(b.CreateBitCast(magnitude, b.getFloatTy()), shift);
      uint32_t shiftBits = shift->getValueAPF().bitcastToAPInt().getZExtValue();
      subnormal = b.CreateSub(b.CreateBitCast(sum, b.getInt32Ty()), b.getInt32(shiftBits));
    } else {
      // Those of f32 itself are below them all.
      Value *mantissa = b.CreateOr(b.CreateAnd(magnitude, 0x7fffff), 0x800000);
      Value *distance =
          b.CreateSub(b.getInt32(dropped + 128 - format.bias), b.CreateLShr(magnitude, 23));
      distance = b.CreateBinaryIntrinsic(Intrinsic::umin, distance, b.getInt32(31));
      subnormal = b.CreateLShr(mantissa, distance);
    }
    Value *isNormal = b.CreateICmpUGE(magnitude, b.getInt32(uint32_t(128 - format.bias) << 23));
    result = b.CreateSelect(isNormal, result, subnormal);
  }
  result = b.CreateSelect(b.CreateICmpUGT(magnitude, infinity), b.getInt32(format.nan()), result);
  Value *sign = b.CreateAnd(b.CreateLShr(bits, 32 - format.bits), format.sign());
  if (!format.hasMinusZero)
    sign = b.CreateSelect(b.CreateIsNull(result), b.getInt32(0), sign);
  return b.CreateTrunc(b.CreateOr(result, sign), b.getIntNTy(format.bits));
}

Value *narrowDouble(IRBuilder<> &b, Value *x, bool odd) {
  Value *nearest = b.CreateFPTrunc(x, b.getFloatTy());
  Value *back = b.CreateFPExt(nearest, x->getType());
  Value *code = b.CreateBitCast(nearest, b.getInt32Ty());
  Value *tooLarge = b.CreateFCmpOGT(b.CreateUnaryIntrinsic(Intrinsic::fabs, back),
                                    b.CreateUnaryIntrinsic(Intrinsic::fabs, x));
  code = b.CreateSub(code, b.CreateZExt(tooLarge, b.getInt32Ty()));
  if (odd)
    code = b.CreateOr(code, b.CreateZExt(b.CreateFCmpONE(back, x), b.getInt32Ty()));
  return b.CreateBitCast(code, b.getFloatTy());
}

namespace {

/// Infinity as the largest number, whose code is the one before. In integers: LLVM cannot copy
/// signs between all float types.
Value *saturated(IRBuilder<> &b, Value *x) {
  Type *type = x->getType(), *word = b.getIntNTy(type->getPrimitiveSizeInBits());
  Value *code = b.CreateBitCast(x, word);
  APInt infinity = APFloat::getInf(type->getFltSemantics()).bitcastToAPInt();
  Value *magnitude = b.CreateAnd(code, ~APInt::getSignMask(infinity.getBitWidth()));
  Value *isInfinite = b.CreateICmpEQ(magnitude, ConstantInt::get(word, infinity));
  return b.CreateBitCast(b.CreateSub(code, b.CreateZExt(isInfinite, word)), type);
}

} // namespace

Value *convertFloat(IRBuilder<> &b, Value *x, mlir::Type from, mlir::Type to, FloatRounding how) {
  bool nearest = how.rounding == tile::Rounding::NearestEven;
  if (isFp8(from))
    x = widen(b, x, FloatFormat::of(from));
  else if (from.getIntOrFloatBitWidth() < 32)
    x = b.CreateFPExt(x, b.getFloatTy());
  // Of f16 and bf16 neither holds the other.
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
  bool holds = toBits > fromBits || from == to;
  if (!isFp8(to) && (nearest || holds)) {
    Type *type = to.isF64()   ? b.getDoubleTy()
                 : to.isF32() ? b.getFloatTy()
                 : to.isF16() ? b.getHalfTy()
                              : b.getBFloatTy();
    if (from.isF64() && to.isBF16()) // LLVM may go by way of f32
      x = narrowDouble(b, x, /*odd=*/true);
    x = b.CreateFPCast(x, type);
    return how.saturate ? saturated(b, x) : x;
  }
  if (from.isF64())
    x = narrowDouble(b, x, /*odd=*/nearest);
  if (to.isF32())
    return how.saturate ? saturated(b, x) : x;
  Value *bits = narrow(b, x, FloatFormat::of(to), how);
  return isFp8(to) ? bits : b.CreateBitCast(bits, to.isF16() ? b.getHalfTy() : b.getBFloatTy());
}

Value *integerToBF16(IRBuilder<> &b, Value *x, bool isSigned) {
  Type *word = b.getInt64Ty();
  bool isLong = x->getType()->getIntegerBitWidth() > 53;
  x = isSigned ? b.CreateSExt(x, word) : b.CreateZExt(x, word);
  if (isLong) {
    // Bits that an f64 has no place for become one, which it has.
    Value *low = b.CreateAnd(x, 0xfff);
    Value *sticky = b.CreateShl(b.CreateZExt(b.CreateIsNotNull(low), word), 11);
    Value *upper = b.CreateOr(b.CreateAnd(x, ~uint64_t(0xfff)), sticky);
    Value *magnitude = isSigned ? b.CreateBinaryIntrinsic(Intrinsic::abs, x, b.getFalse()) : x;
    x = b.CreateSelect(b.CreateICmpULT(magnitude, b.getInt64(uint64_t(1) << 53)), x, upper);
  }
  Value *wide = isSigned ? b.CreateSIToFP(x, b.getDoubleTy()) : b.CreateUIToFP(x, b.getDoubleTy());
  return b.CreateFPTrunc(narrowDouble(b, wide, /*odd=*/true), b.getBFloatTy());
}

} // namespace sectile
