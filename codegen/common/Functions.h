// Functions of f32 and f64 numbers, built from what every chip has: fused multiply-adds, 2^x of f32
// and integer arithmetic. docs/compiler.md lists their errors.
#ifndef SECTILE_CODEGEN_COMMON_FUNCTIONS_H
#define SECTILE_CODEGEN_COMMON_FUNCTIONS_H

#include "codegen/common/TargetHooks.h"
#include "llvm/ADT/DenseMap.h"

namespace sectile::functions {

/// An angle less the nearest multiple of a quarter turn, and the multiple's number (an i32).
struct ReducedAngle {
  llvm::Value *rest = nullptr, *quarters = nullptr;
};
/// Of numbers whose sine or cosine is known at the builder's place: LLVM does not join the branches
/// that two reductions would have.
using ReducedAngles = llvm::DenseMap<llvm::Value *, ReducedAngle>;

struct Builder {
  llvm::IRBuilder<> &b;
  const TargetHooks &hooks;
  ReducedAngles &angles;
  Builder(llvm::IRBuilder<> &b, const TargetHooks &hooks, ReducedAngles &angles)
      : b(b), hooks(hooks), angles(angles) {}
};

llvm::Value *sqrt(Builder &builder, llvm::Value *x);
llvm::Value *rsqrt(Builder &builder, llvm::Value *x);
llvm::Value *exp(Builder &builder, llvm::Value *x);
/// Of f32, by the chip's instructions alone: e^x to 2 + 1.5 |x| ulp, x / y to 3 ulp.
llvm::Value *fastExp(Builder &builder, llvm::Value *x);
llvm::Value *fastDivide(Builder &builder, llvm::Value *x, llvm::Value *y);
llvm::Value *exp2(Builder &builder, llvm::Value *x);
llvm::Value *expm1(Builder &builder, llvm::Value *x);
llvm::Value *log(Builder &builder, llvm::Value *x);
llvm::Value *log2(Builder &builder, llvm::Value *x);
llvm::Value *log10(Builder &builder, llvm::Value *x);
llvm::Value *log1p(Builder &builder, llvm::Value *x);
llvm::Value *sin(Builder &builder, llvm::Value *x);
llvm::Value *cos(Builder &builder, llvm::Value *x);
llvm::Value *tan(Builder &builder, llvm::Value *x);
llvm::Value *asin(Builder &builder, llvm::Value *x);
llvm::Value *acos(Builder &builder, llvm::Value *x);
llvm::Value *atan(Builder &builder, llvm::Value *x);
llvm::Value *atan2(Builder &builder, llvm::Value *y, llvm::Value *x);
llvm::Value *sinh(Builder &builder, llvm::Value *x);
llvm::Value *cosh(Builder &builder, llvm::Value *x);
llvm::Value *tanh(Builder &builder, llvm::Value *x);
llvm::Value *asinh(Builder &builder, llvm::Value *x);
llvm::Value *acosh(Builder &builder, llvm::Value *x);
llvm::Value *atanh(Builder &builder, llvm::Value *x);
llvm::Value *pow(Builder &builder, llvm::Value *x, llvm::Value *y);
llvm::Value *cbrt(Builder &builder, llvm::Value *x);
/// x less the multiple of y towards zero: exact.
llvm::Value *remainder(Builder &builder, llvm::Value *x, llvm::Value *y);
llvm::Value *erf(Builder &builder, llvm::Value *x);

} // namespace sectile::functions

#endif
