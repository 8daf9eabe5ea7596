// Linear algebra over GF(2) on packed bit vectors: what the layout algebra computes with.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/bit.h"
#include <cstdint>
#include <optional>
#include <type_traits>

namespace sectile {

/// A basis of a space of bit vectors, grown one vector at a time. Remembers how each reduced vector
/// came about, so that any vector of the space can be written as a combination of the inserted
/// ones.
class Gf2Basis {
public:
  /// Adds the vector with the number `index` (below 64); false when it depends on the earlier ones.
  bool insert(uint64_t vector, unsigned index) {
    Row row = reduce({vector, uint64_t(1) << index});
    if (!row.vector)
      return false;
    rows.push_back(row);
    return true;
  }

  /// The inserted vectors (as a mask of their numbers) that xor to `vector`, if there are any.
  std::optional<uint64_t> express(uint64_t vector) const {
    Row row = reduce({vector, 0});
    if (row.vector)
      return std::nullopt;
    return row.combination;
  }

  bool spans(uint64_t vector) const { return reduce({vector, 0}).vector == 0; }

  /// Adds a vector without a number of its own.
  bool insert(uint64_t vector) {
    Row row = reduce({vector, 0});
    if (!row.vector)
      return false;
    rows.push_back(row);
    return true;
  }

  unsigned rank() const { return rows.size(); }

private:
  struct Row {
    uint64_t vector, combination;
  };

  // Every row's highest bit is in no later row, so one pass in order of insertion reduces.
  Row reduce(Row row) const {
    for (const Row &pivot : rows)
      if (row.vector & llvm::bit_floor(pivot.vector)) {
        row.vector ^= pivot.vector;
        row.combination ^= pivot.combination;
      }
    return row;
  }

  llvm::SmallVector<Row, 16> rows;
};

/// The xor of the columns that `mask` selects.
template <class Columns> auto gf2Combine(const Columns &columns, uint64_t mask) {
  std::decay_t<decltype(columns[0])> result{};
  for (; mask; mask &= mask - 1)
    result ^= columns[llvm::countr_zero(mask)];
  return result;
}

} // namespace sectile
