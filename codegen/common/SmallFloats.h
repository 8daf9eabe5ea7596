// Conversions of 8-bit floats, which LLVM has no types for.
#ifndef SECTILE_CODEGEN_COMMON_SMALLFLOATS_H
#define SECTILE_CODEGEN_COMMON_SMALLFLOATS_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/IR/IRBuilder.h"

namespace sectile {

/// The format of an 8-bit float: one sign bit, then exponent and mantissa.
struct SmallFloat {
  unsigned mantissaBits;
  int bias;
  bool hasInfinity; ///< else the largest encoding is the only NaN, as in e4m3fn
  uint8_t largest;  ///< finite value

  static SmallFloat of(mlir::Type type) {
    return mlir::isa<mlir::Float8E4M3FNType>(type) ? SmallFloat{3, 7, false, 0x7e}
                                                   : SmallFloat{2, 15, true, 0x7b};
  }
};

/// An i8 that holds such a float, as f32: exact.
llvm::Value *widen(llvm::IRBuilder<> &b, llvm::Value *bits, SmallFloat format);
/// An f32 rounded to nearest even, as an i8. Beyond the largest finite value, infinities included,
/// the result is that value with its sign, as the conversions of the chips have it (`satfinite`).
llvm::Value *narrow(llvm::IRBuilder<> &b, llvm::Value *x, SmallFloat format);

} // namespace sectile

#endif
