// What a tensor map, an argument of a kernel that uses the copy engine, is made of.
#ifndef SECTILE_IR_CTA_TENSORMAP_H
#define SECTILE_IR_CTA_TENSORMAP_H

#include "mlir/IR/Value.h"
#include "runtime/TensorNumber.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>

namespace sectile::cta {

/// Of an argument that is a tensor map: what it is made of, a TensorMap as an attribute.
inline constexpr llvm::StringLiteral tensorMapAttr = "cta.tensor_map";

struct TensorMap {
  static constexpr unsigned mostDimensions = 5;
  /// An extent that no coordinate reaches.
  static constexpr int64_t unbounded = (int64_t(1) << 31) - 1;
  /// The most rows of a segment, whose end the kernel computes, and the extent of the map's
  /// dimension in which it ends.
  static constexpr int64_t segmentRows = int64_t(1) << 30;
  /// Bytes that vanish from an address, which has 64 bits, when a coordinate is `segmentRows`.
  static constexpr int64_t vanishingStride = int64_t(1) << 34;

  /// A number that a launch knows: `constant` plus `factor` times another argument's value. A
  /// negative argument is none.
  struct Given {
    int64_t argument = -1, constant = 0, factor = 1;
  };
  int64_t pointer = 0; ///< the argument that is the tensor's address
  int64_t elementBytes = 0;
  TensorNumber number = TensorNumber::Bits;
  int64_t swizzle = 0;                 ///< bytes: 128, 64, 32 or none
  llvm::SmallVector<Given, 2> extents; ///< elements, the contiguous dimension first
  llvm::SmallVector<Given, 1> strides; ///< elements, of the other dimensions
  llvm::SmallVector<int64_t, 2> box;   ///< elements
  bool isWritten = false;              ///< else read

  mlir::Attribute toAttribute(mlir::MLIRContext *context) const;
  static TensorMap fromAttribute(mlir::Attribute attribute);
};

/// What the engine takes numbers of a type for where it adds them to memory; nothing where it does
/// not (PTX ISA, cp.reduce.async.bulk.tensor). It could add integers, too.
std::optional<TensorNumber> addedAs(mlir::Type element);

/// How a launch computes an integer: an argument of the kernel or a constant, sign-extended or not,
/// or a constant less such a number in 64 bits. Nothing for other values.
std::optional<TensorMap::Given> givenToLaunch(mlir::Value value);

} // namespace sectile::cta

#endif
