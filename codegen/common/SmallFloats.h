// Conversions between floats that LLVM has no instruction for: 8-bit floats, for which it has no
// types, rounding toward zero, and saturation.
#ifndef SECTILE_CODEGEN_COMMON_SMALLFLOATS_H
#define SECTILE_CODEGEN_COMMON_SMALLFLOATS_H

#include "ir/tile/Tile.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/IR/IRBuilder.h"

namespace sectile {

/// Whether LLVM has no type for these floats: they are held as their bits, in an i8.
inline bool isFp8(mlir::Type type) {
  return mlir::isa<mlir::FloatType>(type) && type.getIntOrFloatBitWidth() == 8;
}

/// A float of 8 or 16 bits: one sign bit, then exponent and mantissa.
struct FloatFormat {
  unsigned bits, mantissaBits;
  int bias;
  bool hasInfinity;  ///< and NaNs above it
  bool hasMinusZero; ///< else its code is the only NaN
  uint32_t largest;  ///< code of the largest finite value; the next is infinity, or NaN without one

  static FloatFormat of(mlir::Type type);
  uint32_t sign() const { return 1u << (bits - 1); }
  uint32_t nan() const {
    return hasInfinity ? (largest + 1) | 1u << (mantissaBits - 1) : largest + 1;
  }
};

/// The bits of an 8-bit float as f32: exact.
llvm::Value *widen(llvm::IRBuilder<> &b, llvm::Value *bits, FloatFormat format);

/// How a conversion rounds, and what becomes of numbers that are too large.
struct FloatRounding {
  tile::Rounding rounding = tile::Rounding::NearestEven;
  bool saturate = false;
};

/// The bits of an f32 in a small format. Too large a number becomes infinity, or NaN without one;
/// with `saturate` (`satfinite` to the chips) the largest of its sign, infinity too.
llvm::Value *narrow(llvm::IRBuilder<> &b, llvm::Value *x, FloatFormat format, FloatRounding how);

/// Between any two float types, rounded once; 8-bit floats are an i8.
llvm::Value *convertFloat(llvm::IRBuilder<> &b, llvm::Value *x, mlir::Type from, mlir::Type to,
                          FloatRounding how);

/// An f64 as f32. `odd`: inexact results get an odd last bit, so that rounding them again rounds
/// the f64; else toward zero.
llvm::Value *narrowDouble(llvm::IRBuilder<> &b, llvm::Value *x, bool odd);

/// An integer as a bf16, rounded once: LLVM goes by way of f32.
llvm::Value *integerToBF16(llvm::IRBuilder<> &b, llvm::Value *x, bool isSigned);

} // namespace sectile

#endif
