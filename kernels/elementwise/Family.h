// The specifications of this family, each defined beside its kernel.
#pragma once
#include "kernels/registry/Families.h"

namespace sectile {

KernelSpec vectorAddSpec();
KernelSpec activationSpec();
KernelSpec activationBackwardSpec();
KernelSpec swigluSpec();
KernelSpec swigluBackwardSpec();
KernelSpec gegluSpec();
KernelSpec gegluBackwardSpec();
KernelSpec dropoutSpec();
KernelSpec dropoutBackwardSpec();
KernelSpec embeddingSpec();
KernelSpec embeddingBackwardSpec();

} // namespace sectile
