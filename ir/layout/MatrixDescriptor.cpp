// Operands that matrix instructions read from shared memory themselves.
#include "ir/layout/MatrixDescriptor.h"
#include "ir/layout/Shared.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cassert>

namespace sectile {
namespace {

constexpr unsigned group = 8;  // lines whose chunks are permuted together
constexpr unsigned chunk = 16; // bytes
constexpr unsigned mostLine = 128;

/// What the chip makes of an address within lines of `swizzle` bytes: the number of a chunk is
/// added, bit by bit, to that of a 128-byte line.
unsigned swizzled(unsigned address, unsigned swizzle) {
  return address ^ (address >> 3 & (swizzle - chunk));
}

unsigned addressIn(const MatrixDescriptor &of, unsigned bytes, int64_t row, int64_t k) {
  unsigned line = of.swizzle / bytes;
  unsigned address = of.alongK ? row % group * of.swizzle + row / group * of.stride + k * bytes
                               : k % group * of.swizzle + k / group * of.stride +
                                     row / line * of.leading + row % line * bytes;
  return swizzled(of.start + address, of.swizzle);
}

} // namespace

Layout sharedForDescriptors(llvm::ArrayRef<int64_t> shape, unsigned fastest, unsigned elementBits,
                            unsigned lineBytes) {
  assert(shape.size() == 2 && "a matrix");
  const unsigned bytes = elementBytes(elementBits), other = 1 - fastest;
  auto coreBits = [&](unsigned dim) { return unsigned(llvm::countr_zero(uint64_t(shape[dim]))); };
  auto shift = [&](unsigned dim) { return dim == 0 ? coreBits(1) : 0; };
  const unsigned line = std::min<unsigned>(lineBytes / bytes, 1u << coreBits(fastest));
  assert(line * bytes >= leastDescriptorLine && "a line has two chunks");
  const unsigned lineBits = llvm::Log2_32(line);
  Layout::PackedBases bases;
  auto &offsets = bases[unsigned(In::Offset)];
  for (unsigned bit = 0; bit < lineBits; ++bit)
    offsets.push_back(1u << (shift(fastest) + bit));
  for (unsigned bit = 0; bit < coreBits(other); ++bit)
    offsets.push_back(1u << (shift(other) + bit));
  for (unsigned bit = lineBits; bit < coreBits(fastest); ++bit)
    offsets.push_back(1u << (shift(fastest) + bit));
  // Bits 4 to 6 of an address, as far as they are in a line, are those of the chunk xor bits 7
  // to 9.
  const unsigned chunkBit = llvm::Log2_32(chunk / bytes), mixed = llvm::Log2_32(128 / bytes);
  for (unsigned bit = 0; chunkBit + bit < lineBits; ++bit)
    if (mixed + bit < lineBits + coreBits(other))
      offsets[mixed + bit] |= 1u << (shift(fastest) + chunkBit + bit);
  return Layout::fromPacked(Layout::Kind::Shared, shape, bases);
}

std::optional<MatrixDescriptor> planDescriptor(const Layout &shared, unsigned elementBits,
                                               unsigned rowDim, int64_t row, int64_t column,
                                               int64_t rows, int64_t k) {
  if (shared.rank() != 2)
    return std::nullopt;
  const unsigned bytes = elementBytes(elementBits);
  LayoutInverse inverse(shared);
  auto byteOf = [&](int64_t r, int64_t c) {
    Coordinates place{row + r, column + c};
    if (rowDim == 1)
      std::swap(place[0], place[1]);
    return inverse(place)[In::Offset] * bytes;
  };
  MatrixDescriptor found{};
  found.start = byteOf(0, 0);
  found.alongK = byteOf(0, 1) == found.start + bytes;
  for (found.swizzle = mostLine; found.swizzle >= leastDescriptorLine; found.swizzle /= 2) {
    const int64_t line = found.swizzle / bytes;
    found.stride = found.leading = 0;
    if (found.alongK) {
      if (rows > group)
        found.stride = byteOf(group, 0) - found.start;
    } else {
      if (k > group)
        found.stride = byteOf(0, group) - found.start;
      if (rows > line)
        found.leading = byteOf(line, 0) - found.start;
    }
    // Both ways to an address are linear, up to repeats of whole groups.
    auto agrees = [&](int64_t r, int64_t c) {
      return byteOf(r, c) == addressIn(found, bytes, r, c);
    };
    auto probes = [](int64_t extent) {
      llvm::SmallVector<int64_t> at{0, 1, 2, 4};
      for (int64_t next = group; next < extent; next += group)
        at.push_back(next);
      return at;
    };
    if (llvm::all_of(probes(rows), [&](int64_t r) {
          return llvm::all_of(probes(k), [&](int64_t c) { return agrees(r, c); });
        }))
      return found;
  }
  return std::nullopt;
}

} // namespace sectile
