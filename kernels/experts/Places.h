// Places of choices among rows, as moe_permute gives them: contents of inputs, and checks.
#pragma once
#include "kernels/registry/Registry.h"

namespace sectile {

// Each of the M rows of one choice at most, or -1.
void samplePlaces(const Invocation &call, HostArray &array, std::mt19937_64 &random);
// Throw InputError for places of `end` or beyond, and for two of one place.
void checkPlaces(const Invocation &call, std::span<const HostArray> inputs, const char *argument,
                 std::int64_t end);
void checkDistinct(const Invocation &call, std::span<const HostArray> inputs, const char *argument);

} // namespace sectile
