// What the functions of numbers are written with: arithmetic on LLVM values of one float type.
#ifndef SECTILE_CODEGEN_COMMON_FUNCTIONMATH_H
#define SECTILE_CODEGEN_COMMON_FUNCTIONMATH_H

#include "codegen/common/Functions.h"

namespace sectile::functions {

/// Arithmetic on values of one float type, in the order it is written.
class Math {
public:
  Math(Builder &builder, llvm::Value *x)
      : b(builder.b), hooks(builder.hooks), type(x->getType()), isDouble(type->isDoubleTy()),
        bits(llvm::IntegerType::get(b.getContext(), isDouble ? 64 : 32)) {}

  llvm::IRBuilder<> &b;
  const TargetHooks &hooks;
  llvm::Type *type;
  bool isDouble;
  llvm::IntegerType *bits;

  llvm::Value *number(double value) const { return llvm::ConstantFP::get(type, value); }
  llvm::Value *infinity() const { return llvm::ConstantFP::getInfinity(type); }
  llvm::Value *notANumber() const { return llvm::ConstantFP::getNaN(type); }
  llvm::Value *integer(int64_t value) const { return llvm::ConstantInt::getSigned(bits, value); }
  llvm::Value *fma(llvm::Value *x, llvm::Value *y, llvm::Value *z) const {
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
  }
  llvm::Value *fma(llvm::Value *x, double y, llvm::Value *z) const { return fma(x, number(y), z); }
  llvm::Value *abs(llvm::Value *x) const {
    return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  }
  /// The nearest whole number, as a float and as an integer. Of numbers up to a quarter of those
  /// that the type has whole, whose sum with 1.5 · 2^mantissaBits() ends in it: chips convert
  /// slowly.
  struct Whole {
    llvm::Value *number, *integer;
  };
  Whole nearest(llvm::Value *x) const {
    llvm::Value *middle = number(isDouble ? 0x1.8p52 : 0x1.8p23), *sum = b.CreateFAdd(x, middle);
    return {b.CreateFSub(sum, middle), b.CreateSub(asBits(sum), asBits(middle))};
  }
  /// The nearest whole number n of an f32, and 2^n: the sum that ends in n ends in n + bias()
  /// instead, which takes no addition of integers. n and 2^n are in the range of normal numbers.
  struct Power {
    llvm::Value *exponent, *power;
  };
  Power nearestPower(llvm::Value *x) const {
    llvm::Value *middle = number(0x1.8p23 + bias()), *sum = b.CreateFAdd(x, middle);
    return {b.CreateFSub(sum, middle), asNumber(b.CreateShl(asBits(sum), mantissaBits()))};
  }
  /// Coefficients from the highest power down.
  llvm::Value *polynomial(llvm::Value *x, llvm::ArrayRef<double> coefficients) const {
    llvm::Value *sum = number(coefficients.front());
    for (double coefficient : coefficients.drop_front())
      sum = fma(sum, x, number(coefficient));
    return sum;
  }
  llvm::Value *asBits(llvm::Value *x) const { return b.CreateBitCast(x, bits); }
  llvm::Value *asNumber(llvm::Value *x) const { return b.CreateBitCast(x, type); }
  unsigned mantissaBits() const { return isDouble ? 52 : 23; }
  int bias() const { return isDouble ? 1023 : 127; }
  /// 2^n for an integer n in the range of normal numbers.
  llvm::Value *powerOfTwo(llvm::Value *n) const {
    return asNumber(b.CreateShl(b.CreateAdd(n, integer(bias())), mantissaBits()));
  }
  llvm::Value *clamp(llvm::Value *x, double low, double high) const {
    x = b.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, x, number(low));
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, x, number(high));
  }
};

/// e^r for |r| up to ln(2) / 2, in f64: thirteen terms of the series.
llvm::Value *smallExp(const Math &m, llvm::Value *r);
/// y · 2^n for an integer n, in two steps, so that neither factor leaves the normal numbers.
llvm::Value *scaled(const Math &m, llvm::Value *y, llvm::Value *n);
/// NaN stays NaN, though the clamped argument is a number.
llvm::Value *keepNaN(const Math &m, llvm::Value *x, llvm::Value *result);

} // namespace sectile::functions

#endif
