// Launches that stand for others in a bundle: the same kernel and configuration, with arguments of
// which less is known.
#ifndef SECTILE_JIT_LAUNCHVARIANTS_H
#define SECTILE_JIT_LAUNCHVARIANTS_H

#include "runtime/Chip.h"
#include <sectile/kernel.h>
#include <vector>

namespace sectile::runtime {

/// How much the code of such a launch may assume.
enum class Assumes {
  likeThese, ///< all that these arguments fulfil
  /// Addresses and strides are multiples of 16, but the stride that is 1 in the launch (of one
  /// without arguments the last) is 1, and the rows along it have a multiple of 16 elements;
  /// elements of a view do not overlap; indices and extents have 32 bits.
  aligned,
  nothing,
};

/// The launch with arguments that fulfil this and no more. Its addresses are no memory's.
detail::BoundLaunch variantOf(const detail::BoundLaunch &launch, Assumes assumes);

} // namespace sectile::runtime

#endif
