// The specifications of this family, each defined beside its kernel, and their references.
#pragma once
#include "kernels/registry/Families.h"

namespace sectile {

KernelSpec reduceSpec();
KernelSpec scanSpec();
KernelSpec sortSpec();
KernelSpec argsortSpec();
KernelSpec topkSpec();
KernelSpec histogramSpec();

// All take the call's inputs and give its outputs, as KernelSpec::reference.
std::vector<HostArray> reduceReference(const Invocation &, std::span<const HostArray> inputs,
                                       Arithmetic);
std::vector<HostArray> scanReference(const Invocation &, std::span<const HostArray> inputs,
                                     Arithmetic);
// Sorted rows and where their elements were, both cut to `count`.
std::vector<HostArray> sortReference(const Invocation &, std::span<const HostArray> inputs,
                                     Arithmetic, bool descending, std::int64_t count);
std::vector<HostArray> histogramReference(const Invocation &, std::span<const HostArray> inputs,
                                          Arithmetic);

} // namespace sectile
