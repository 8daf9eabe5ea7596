// How large a drawn call of attention is, and where a score of it lies.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace sectile::fuzz {

struct Length {
  int64_t queries, keys;
};
struct Sizes {
  int64_t heads = 1, kvHeads = 1, width = 16, valueWidth = 16;
  std::vector<Length> sequences; ///< of each batch; where they are dense, all alike

  int64_t batches() const { return static_cast<int64_t>(sequences.size()); }
  int64_t mostQueries() const { return most(&Length::queries); }
  int64_t mostKeys() const { return most(&Length::keys); }

private:
  int64_t most(int64_t Length::*of) const {
    int64_t result = 1;
    for (const Length &length : sequences)
      result = std::max(result, length.*of);
    return result;
  }
};

/// A query and a key of a batch.
struct Pair {
  int64_t batch, head, query, key;
  int64_t distance; ///< of the key before the query
};

} // namespace sectile::fuzz
