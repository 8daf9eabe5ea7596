// The float64 references of this family.
#pragma once
#include <sectile/kernel_spec.h>

namespace sectile {

using SamplingReference = std::vector<HostArray>(const Invocation &call,
                                                 std::span<const HostArray> inputs,
                                                 Arithmetic arithmetic);
SamplingReference sampleReference, renormalizeReference, speculativeVerifyReference;

} // namespace sectile
