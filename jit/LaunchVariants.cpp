// Arguments of which little is known.
#include "jit/LaunchVariants.h"
#include <algorithm>
#include <utility>

namespace sectile::runtime {
namespace {

// No multiple of 8, not 1. An address of these is nowhere.
constexpr uint64_t anyAddress = 3, anyNumber = 3;
// The largest index of 32 bits that is no multiple of 2: buffer accesses take smaller ones, tensor
// maps take it.
constexpr uint64_t index32 = (uint64_t(1) << 30) - 1;
constexpr uint64_t index64 = (uint64_t(1) << 40) + 3;
// So small that elements of a view with these extents and such strides do not overlap.
constexpr uint64_t alignedExtent = 48, alignedStride = 48, anyExtent = 3;

// Which of a view's strides is 1; `rank` where none is.
size_t denseAxis(const uint64_t *strides, size_t rank) {
  const bool isGiven = std::any_of(strides, strides + rank, [](uint64_t stride) { return stride; });
  if (!isGiven)
    return rank - 1;
  for (size_t axis = rank; axis-- > 0;)
    if (strides[axis] == 1)
      return axis;
  return rank;
}

} // namespace

detail::BoundLaunch variantOf(const detail::BoundLaunch &launch, Assumes assumes) {
  detail::BoundLaunch result = launch;
  if (assumes == Assumes::likeThese)
    return result;
  const bool isAligned = assumes == Assumes::aligned;
  const uint64_t address = isAligned ? 0 : anyAddress, index = isAligned ? index32 : index64;
  auto word = result.words.begin();
  for (const detail::ArgSpec &spec : launch.kernel->arguments())
    switch (spec.kind) {
    case detail::ArgKind::pointer:
      *word++ = address;
      break;
    case detail::ArgKind::index:
      *word++ = index;
      break;
    case detail::ArgKind::scalar:
      *word++ = anyNumber;
      break;
    case detail::ArgKind::view: {
      const size_t rank = spec.rank, dense = rank ? denseAxis(&*word + 1 + rank, rank) : 0;
      *word++ = address;
      uint64_t *const extents = &*word, *const strides = extents + rank;
      word = std::fill_n(word, rank, isAligned ? anyExtent : index);
      word = std::fill_n(word, rank, index);
      if (!isAligned)
        break;
      // Rows whose distance is a multiple of 16 are as long, as a rule.
      if (dense < rank && rank > 1)
        extents[dense] = alignedExtent;
      uint64_t stride = alignedStride;
      for (size_t axis = rank; axis-- > 0;)
        strides[axis] = axis == dense ? 1 : std::exchange(stride, stride * (anyExtent + 1));
      break;
    }
    }
  return result;
}

} // namespace sectile::runtime
