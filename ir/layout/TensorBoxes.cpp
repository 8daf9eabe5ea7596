// Buffers in shared memory that Hopper's copy engine fills.
#include "ir/layout/TensorBoxes.h"
#include "ir/layout/Builders.h"
#include "ir/layout/MatrixDescriptor.h"
#include "ir/layout/Shared.h"
#include <algorithm>

namespace sectile {

std::optional<TensorBoxes> planTensorBoxes(const Layout &shared, unsigned elementBits) {
  constexpr int64_t mostRows = 256; // of a box
  constexpr int64_t pattern = 8;    // lines until the swizzle repeats, at most
  const int64_t bytes = sectile::elementBytes(elementBits);
  // CUDA driver API, cuTensorMapEncodeTiled: boxes begin at multiples of 128 bytes.
  constexpr int64_t mostElements = 256, granule = 128;
  if (shared.rank() == 1 && elementBits >= 8 && shared.shape()[0] <= mostElements &&
      shared.shape()[0] * bytes % granule == 0 && shared == sharedPlain(shared.shape(), {0}))
    return TensorBoxes{0, 0, shared.shape()[0], 1, {{0, 0, 0}}};
  if (shared.rank() != 2 || elementBits < 8)
    return std::nullopt;
  for (unsigned fastest : {1u, 0u})
    for (unsigned swizzle : {128u, 64u, 32u}) {
      const int64_t line = swizzle / bytes;
      const int64_t columns = shared.shape()[fastest], lines = shared.shape()[1 - fastest];
      if (columns % line || lines % pattern ||
          !(shared == sharedForDescriptors(shared.shape(), fastest, elementBits, swizzle)))
        continue;
      const LayoutInverse inverse(shared);
      auto byteOf = [&](int64_t along, int64_t across) {
        Coordinates place{across, along};
        if (fastest == 0)
          std::swap(place[0], place[1]);
        return inverse(place)[In::Offset] * bytes;
      };
      // All lines where they follow each other in memory, or else those of the layout's core, which
      // is a power of two.
      int64_t rows = lines;
      if (rows > mostRows || byteOf(0, rows - pattern) != (rows - pattern) * swizzle)
        rows = std::min(mostRows, lines & -lines);
      TensorBoxes plan{fastest, swizzle, line, rows, {}};
      for (int64_t along = 0; along < columns; along += line)
        for (int64_t across = 0; across < lines; across += rows)
          plan.boxes.push_back({along, across, byteOf(along, across)});
      return plan;
    }
  return std::nullopt;
}

bool TensorBoxes::hasWholeColumns() const {
  return fastest == 1 && llvm::all_of(boxes, [](const Box &box) { return box.across == 0; });
}

std::optional<TensorBoxes::Half> TensorBoxes::half() const {
  constexpr int64_t pattern = 8; // lines until the swizzle repeats, at most
  const size_t count = boxes.size() / 2;
  if (boxes.size() == 1) {
    if (rows % (2 * pattern))
      return std::nullopt;
    Half half{*this, {0, rows / 2, rows / 2 * swizzle}};
    half.first.rows = rows / 2;
    return half;
  }
  auto step = [&](size_t i) {
    const Box &from = boxes[i], &to = boxes[count + i];
    return Box{to.along - from.along, to.across - from.across, to.offset - from.offset};
  };
  if (boxes.size() % 2)
    return std::nullopt;
  for (size_t i = 1; i < count; ++i)
    if (!(step(i) == step(0)))
      return std::nullopt;
  Half half{*this, step(0)};
  half.first.boxes.resize(count);
  return half;
}

} // namespace sectile
