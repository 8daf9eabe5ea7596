// SECTILE_RECORD=FILE: the calls of described kernels that a program made, for
// `sectile build --from FILE`.
#pragma once
#include "kernels/registry/Registry.h"

namespace sectile {

// Keeps a call for the file, which is written when the program ends; nothing without the variable.
void recordCall(const Invocation &call);

} // namespace sectile
