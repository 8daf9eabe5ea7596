// The specifications of this family, each defined beside its kernel.
#pragma once
#include "kernels/registry/Families.h"

namespace sectile {

KernelSpec moeRouteSpec();
KernelSpec moeRouteBackwardSpec();
KernelSpec moePermuteSpec();
KernelSpec moeUpSpec();
KernelSpec moeDownSpec();
KernelSpec moeCombineSpec();
KernelSpec moeCombineBackwardSpec();

// Experts that kernels over all of them take at most.
constexpr std::int64_t mostExperts = 1024;

} // namespace sectile
