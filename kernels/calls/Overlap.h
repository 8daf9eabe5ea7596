// Whether the outputs of a call share memory with other arguments.
#pragma once
#include "kernels/registry/Registry.h"
#include <span>
#include <string>
#include <string_view>

namespace sectile {

// Elements in memory: extents and strides count elements.
struct StridedArray {
  std::uint64_t address;
  std::size_t elementBytes;
  std::span<const std::int64_t> extents, strides;
};

// Whether some byte belongs to an element of each. Views that interleave without a common element,
// such as the columns of one matrix, do not overlap.
bool overlap(const StridedArray &a, const StridedArray &b);
// Whether both are the same elements in the same order, whatever axes of extent 1 say.
bool isSame(const StridedArray &a, const StridedArray &b);

// Whether two elements of one array lie at one address.
bool overlapsItself(std::span<const std::int64_t> extents, std::span<const std::int64_t> strides);
// What a message says of an output that does.
std::string itselfText(std::string_view name, std::span<const std::int64_t> strides);

// Throws InputError if an output overlaps another output or an input that ArgumentSpec::over does
// not let it overwrite, or if its own elements share memory. `addresses` are those of all
// arguments.
void checkOverlap(const Invocation &call, std::span<const std::uint64_t> addresses);

} // namespace sectile
