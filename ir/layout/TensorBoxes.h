// Buffers in shared memory that Hopper's copy engine (TMA) fills: the boxes of a tensor that it
// copies at once.
#pragma once

#include "ir/layout/Layout.h"

namespace sectile {

/// How a buffer of two dimensions is made of boxes, which follow each other in memory. A box is one
/// line wide and has `rows` lines, swizzled as the engine does it; boxes go along the other
/// dimension first.
struct TensorBoxes {
  unsigned fastest;       ///< the dimension that lines lie along
  unsigned swizzle;       ///< bytes of a line: 128, 64 or 32
  int64_t line, rows;     ///< elements, and lines of a box
  int64_t panels, groups; ///< boxes along the fastest dimension, and along the other one

  /// Bytes of one box.
  int64_t bytes() const { return rows * swizzle; }
  bool operator==(const TensorBoxes &) const = default;
};

/// The boxes that a shared layout is made of, or nothing where it is none that the engine writes.
std::optional<TensorBoxes> planTensorBoxes(const Layout &shared, unsigned elementBits);

} // namespace sectile
