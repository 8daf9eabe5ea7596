// Operands that matrix instructions read from shared memory themselves, as Hopper's descriptors say
// where they are.
#pragma once

#include "ir/layout/Layout.h"

namespace sectile {

/// A matrix of rows (of A, or columns of B) by K as `wgmma` finds it: where it starts, and two
/// strides. PTX ISA, "Asynchronous warpgroup-level matrix shared memory layout".
///
/// Lines of `swizzle` bytes follow each other, eight to a group. Along K where `alongK`: a line is
/// of one row, the next group of eight rows is `stride` bytes on. Else a line is of one k, the next
/// eight k are `stride` bytes on, and the rows of the next line `leading` bytes.
struct MatrixDescriptor {
  unsigned swizzle; ///< bytes: 128, 64 or 32
  bool alongK;
  unsigned leading = 0, stride = 0; ///< bytes
  unsigned start = 0;               ///< byte of the first element in the buffer

  bool operator==(const MatrixDescriptor &) const = default;
};

/// Bytes of the shortest lines that there are.
inline constexpr unsigned leastDescriptorLine = 32;

/// A shared layout that such instructions can read, whose fastest dimension is `fastest`: panels
/// that are one line wide, of 128, 64 or 32 bytes and no wider than the dimension is in powers of
/// two, swizzled as the chip does it.
Layout sharedForDescriptors(llvm::ArrayRef<int64_t> shape, unsigned fastest, unsigned elementBits,
                            unsigned lineBytes);

/// The descriptor of the matrix `rows` x `k` at (row, column) of a buffer with two dimensions, of
/// which `rowDim` are its rows; nothing where its elements do not lie as any descriptor says.
std::optional<MatrixDescriptor> planDescriptor(const Layout &shared, unsigned elementBits,
                                               unsigned rowDim, int64_t row, int64_t column,
                                               int64_t rows, int64_t k);

} // namespace sectile
