// What a tensor map, an argument of a kernel that uses the copy engine, is made of.
#ifndef SECTILE_IR_CTA_TENSORMAP_H
#define SECTILE_IR_CTA_TENSORMAP_H

#include "mlir/IR/Attributes.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace sectile::cta {

/// Of an argument that is a tensor map: what it is made of, a TensorMap as an attribute.
inline constexpr llvm::StringLiteral tensorMapAttr = "cta.tensor_map";

struct TensorMap {
  static constexpr unsigned mostDimensions = 5;
  /// An extent that no coordinate reaches.
  static constexpr int64_t unbounded = (int64_t(1) << 31) - 1;

  /// Another argument's value, or a constant where that is negative.
  struct Given {
    int64_t argument = -1, value = 0;
  };
  int64_t pointer = 0; ///< the argument that is the tensor's address
  int64_t elementBytes = 0;
  int64_t swizzle = 0;                 ///< bytes: 128, 64 or 32
  llvm::SmallVector<Given, 2> extents; ///< elements, the contiguous dimension first
  llvm::SmallVector<Given, 1> strides; ///< elements, of the other dimensions
  llvm::SmallVector<int64_t, 2> box;   ///< elements
  bool isWritten = false;              ///< else read

  mlir::Attribute toAttribute(mlir::MLIRContext *context) const;
  static TensorMap fromAttribute(mlir::Attribute attribute);
};

} // namespace sectile::cta

#endif
