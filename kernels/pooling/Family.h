// The specifications of this family, each defined beside its kernel, and their references.
#pragma once
#include "kernels/registry/Families.h"

namespace sectile {

KernelSpec meanPoolSpec();
KernelSpec meanPoolBackwardSpec();
KernelSpec chunkMeanPoolSpec();
KernelSpec chunkMeanPoolBackwardSpec();

// All take the call's inputs and give its outputs, as KernelSpec::reference.
std::vector<HostArray> meanPoolReference(const Invocation &, std::span<const HostArray> inputs,
                                         Arithmetic);
std::vector<HostArray> meanPoolBackwardReference(const Invocation &,
                                                 std::span<const HostArray> inputs, Arithmetic);
std::vector<HostArray> chunkMeanPoolReference(const Invocation &, std::span<const HostArray> inputs,
                                              Arithmetic);
std::vector<HostArray>
chunkMeanPoolBackwardReference(const Invocation &, std::span<const HostArray> inputs, Arithmetic);

} // namespace sectile
