// What the C interface says of an operation to those who make bindings.
#pragma once
#include "kernels/registry/Registry.h"

namespace sectile::c {

std::string describeOperation(const KernelSpec &kernel);

} // namespace sectile::c
