// Buffers in shared memory that Hopper's copy engine (TMA) fills: the boxes of a tensor that it
// copies at once.
#pragma once

#include "ir/layout/Layout.h"

namespace sectile {

/// How a buffer of two dimensions is made of boxes, all alike: one line wide, `rows` lines high,
/// and swizzled as the engine does it. A buffer of one dimension is one box of one line.
struct TensorBoxes {
  struct Box {
    int64_t along, across; ///< its first element: in the fastest dimension, and in the other one
    int64_t offset;        ///< bytes from the buffer's start

    bool operator==(const Box &) const = default;
  };
  unsigned fastest;   ///< the dimension that lines lie along
  unsigned swizzle;   ///< bytes of a line: 128, 64 or 32; 0 where nothing is swizzled
  int64_t line, rows; ///< elements of a line, and lines of a box
  llvm::SmallVector<Box> boxes;

  bool operator==(const TensorBoxes &) const = default;

  /// Whether boxes lie beside each other only, along the last dimension: each has all lines.
  bool hasWholeColumns() const;

  /// The boxes of the first half, and how the second half lies to it; nothing where no half is
  /// whole boxes.
  struct Half;
  std::optional<Half> half() const;
};
struct TensorBoxes::Half {
  TensorBoxes first;
  Box second; ///< what the second half's boxes have more of each
};

/// The boxes that a shared layout is made of, or nothing where it is none that the engine writes.
std::optional<TensorBoxes> planTensorBoxes(const Layout &shared, unsigned elementBits);

} // namespace sectile
