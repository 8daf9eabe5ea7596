// Learned: an operand of a score lambda that has a gradient.
#pragma once
#include <map>
#include <sectile/sectile.h>

namespace sectile::flash {

// What a learned operand has an element for: a head; of each head a query, a key, a distance of a
// key from a query, from -reach to reach, where those that are farther have the ends; or a pair of
// a query and a key.
enum class Along { heads, queries, keys, distances, pairs };

// Values [B or 1, H or 1, W]: W is 1, Sq, Sk or 2 reach + 1; of pairs [B or 1, H or 1, Sq, Sk].
// At::per_head, per_query, per_key, by_distance and per_pair give their scores. Of several that a
// lambda has along the same, each has a tag of its own. parts: what programs add to the gradient,
// [B, H, programs, W]; a backward pass has it. A launch of its own writes the gradient of pairs.
template <Along A, int Tag = 0> struct Learned {
  static constexpr int slot = 1 + 5 * Tag + static_cast<int>(A); // of a score's derivatives
  View<const float, 3> values;
  View<float, 4> parts;
};
template <int Tag> struct Learned<Along::pairs, Tag> {
  static constexpr int slot = 1 + 5 * Tag + static_cast<int>(Along::pairs);
  View<const float, 4> values;
};

// Those of a lambda, of whatever type, by their slots.
struct LearnedUse {
  Along along;
  View<float, 4> parts; // but of pairs
};
using LearnedUses = std::map<int, LearnedUse>;

} // namespace sectile::flash
