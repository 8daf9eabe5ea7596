// 8-bit floats by integer arithmetic.
#include "codegen/common/SmallFloats.h"
#include <cmath>

using namespace llvm;

namespace sectile {

Value *widen(IRBuilder<> &b, Value *bits, SmallFloat format) {
  Value *wide = b.CreateZExt(bits, b.getInt32Ty());
  Value *magnitude = b.CreateAnd(wide, 0x7f);
  Value *sign = b.CreateShl(b.CreateAnd(wide, 0x80), 24);
  // Exponent and mantissa in place are the value with the wrong bias; multiplying mends it, also
  // for subnormal numbers.
  Value *scaled = b.CreateBitCast(b.CreateShl(magnitude, 23 - format.mantissaBits), b.getFloatTy());
  Value *value =
      b.CreateFMul(scaled, ConstantFP::get(b.getFloatTy(), std::ldexp(1.0, 127 - format.bias)));
  Value *valueBits = b.CreateBitCast(value, b.getInt32Ty());
  if (format.hasInfinity) {
    Value *isSpecial = b.CreateICmpUGT(magnitude, b.getInt32(format.largest));
    Value *special = b.CreateOr(b.CreateShl(magnitude, 23 - format.mantissaBits), 0x7f800000);
    valueBits = b.CreateSelect(isSpecial, special, valueBits);
  } else {
    valueBits = b.CreateSelect(b.CreateICmpEQ(magnitude, b.getInt32(0x7f)), b.getInt32(0x7fc00000),
                               valueBits);
  }
  return b.CreateBitCast(b.CreateOr(valueBits, sign), b.getFloatTy());
}

Value *narrow(IRBuilder<> &b, Value *x, SmallFloat format) {
  Value *bits = b.CreateBitCast(x, b.getInt32Ty());
  Value *magnitude = b.CreateAnd(bits, 0x7fffffff);
  unsigned dropped = 23 - format.mantissaBits;
  // Normal numbers: round the mantissa by adding half a unit less a tie's even bit, then move the
  // exponent to the new bias.
  Value *odd = b.CreateAnd(b.CreateLShr(magnitude, dropped), 1);
  Value *rounded = b.CreateAdd(b.CreateAdd(magnitude, b.getInt32((1u << (dropped - 1)) - 1)), odd);
  Value *normal =
      b.CreateLShr(b.CreateSub(rounded, b.getInt32(uint32_t(127 - format.bias) << 23)), dropped);
  normal = b.CreateBinaryIntrinsic(Intrinsic::umin, normal, b.getInt32(format.largest));
  // Subnormal ones: adding a number whose last place is their unit rounds in the adder.
  auto *shift = cast<ConstantFP>(ConstantFP::get(
      b.getFloatTy(), std::ldexp(1.0, 24 - int(format.mantissaBits) - format.bias)));
  Value *sum = b.CreateFAdd(b.CreateBitCast(magnitude, b.getFloatTy()), shift);
  Value *subnormal = b.CreateSub(b.CreateBitCast(sum, b.getInt32Ty()),
                                 b.getInt32(shift->getValueAPF().bitcastToAPInt().getZExtValue()));
  Value *isNormal = b.CreateICmpUGE(magnitude, b.getInt32(uint32_t(128 - format.bias) << 23));
  Value *result = b.CreateSelect(isNormal, normal, subnormal);
  Value *isNaN = b.CreateICmpUGT(magnitude, b.getInt32(0x7f800000));
  result = b.CreateSelect(isNaN, b.getInt32(0x7f), result);
  result = b.CreateOr(result, b.CreateAnd(b.CreateLShr(bits, 24), 0x80));
  return b.CreateTrunc(result, b.getInt8Ty());
}

} // namespace sectile
