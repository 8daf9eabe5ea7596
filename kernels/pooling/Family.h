// The specifications of this family, each defined beside its kernel, and their references.
#pragma once
#include "kernels/registry/Families.h"

namespace sectile {

KernelSpec meanPoolSpec();
KernelSpec meanPoolBackwardSpec();
KernelSpec chunkMeanPoolSpec();
KernelSpec chunkMeanPoolBackwardSpec();

ReferenceFunction meanPoolReference;
ReferenceFunction meanPoolBackwardReference;
ReferenceFunction chunkMeanPoolReference;
ReferenceFunction chunkMeanPoolBackwardReference;

} // namespace sectile
