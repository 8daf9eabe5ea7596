// Learned: an operand of a score lambda that has a gradient.
#pragma once
#include <map>
#include <sectile/sectile.h>

namespace sectile::flash {

// What a learned operand has an element for: a head, a query or a key of each, or, of each head, a
// distance of a key from a query, from -reach to reach; those that are farther have the ends.
enum class Along { heads, queries, keys, distances };

// Values [B or 1, H or 1, W]: W is 1, Sq, Sk or 2 reach + 1. At::per_head, per_query, per_key and
// by_distance give their scores. Of several that a lambda has along the same, each has a tag of its
// own. parts: what programs add to the gradient, [B, H, programs, W]; a backward pass has it.
template <Along A, int Tag = 0> struct Learned {
  static constexpr int slot = 1 + 4 * Tag + static_cast<int>(A); // of a score's derivatives
  View<const float, 3> values;
  View<float, 4> parts;
};
template <Along A, int Tag>
SECTILE_STRUCT((Learned<A, Tag>), values, parts)

// Those that a lambda used while gradients are traced, by their slots.
struct LearnedUse {
  Along along;
  View<float, 4> parts;
};
using LearnedUses = std::map<int, LearnedUse>;

} // namespace sectile::flash
