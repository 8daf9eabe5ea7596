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

ReferenceFunction reduceReference;
ReferenceFunction scanReference;
// Sorted rows and where their elements were, both cut to `count`.
std::vector<HostArray> sortReference(const Invocation &, std::span<const HostArray> inputs,
                                     Arithmetic, bool descending, std::int64_t count);
ReferenceFunction histogramReference;

} // namespace sectile
