// The float64 references of this family.
#pragma once
#include <sectile/kernel_spec.h>

namespace sectile {

using ExpertReference = std::vector<HostArray>(const Invocation &call,
                                               std::span<const HostArray> inputs,
                                               Arithmetic arithmetic);
ExpertReference moeRouteReference, moeRouteBackwardReference, moePermuteReference, moeUpReference,
    moeDownReference, moeCombineReference, moeCombineBackwardReference;

} // namespace sectile
