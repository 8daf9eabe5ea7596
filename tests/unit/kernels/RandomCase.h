// Cases of any kernel of the registry, drawn from its specification: one number, one case.
#pragma once
#include "KernelTest.h"

namespace sectile::test {

/// All dtypes that it takes, optional inputs, axes that may be 1 long, two of its options at once,
/// and extents near KernelSpec::small and beside the edges of tiles. What the kernel refuses is
/// drawn again.
struct RandomCase {
  KernelCase test;
  int drawn = 0, refused = 0; // times that a part of it was
};
RandomCase randomCase(const KernelSpec &kernel, std::uint64_t seed);

/// Values of an option other than its default.
std::vector<std::string> otherValues(const OptionSpec &option);

/// Whether the kernel takes it.
bool isTaken(const KernelCase &test);

/// The kernel that this is the backward kernel of, if there is one.
const KernelSpec *forwardOf(const KernelSpec &kernel);

} // namespace sectile::test
