// Buffers in shared memory that Hopper's copy engine fills.
#include "ir/layout/TensorBoxes.h"
#include "ir/layout/MatrixDescriptor.h"
#include "ir/layout/Shared.h"
#include "llvm/ADT/STLExtras.h"

namespace sectile {

std::optional<TensorBoxes> planTensorBoxes(const Layout &shared, unsigned elementBits) {
  constexpr int64_t mostRows = 256; // of a box
  constexpr int64_t pattern = 8;    // lines until the swizzle repeats, at most
  if (shared.rank() != 2 || elementBits < 8 ||
      !llvm::all_of(shared.shape(), [](int64_t n) { return llvm::isPowerOf2_64(n); }))
    return std::nullopt;
  for (unsigned fastest : {1u, 0u})
    for (unsigned swizzle : {128u, 64u, 32u}) {
      const int64_t line = swizzle / sectile::elementBytes(elementBits);
      const int64_t columns = shared.shape()[fastest], lines = shared.shape()[1 - fastest];
      if (columns < line || lines < pattern ||
          !(shared == sharedForDescriptors(shared.shape(), fastest, elementBits, swizzle)))
        continue;
      const int64_t rows = std::min(lines, mostRows);
      return TensorBoxes{fastest, swizzle, line, rows, columns / line, lines / rows};
    }
  return std::nullopt;
}

} // namespace sectile
