// The options of a product that ends in a gate, for moe_up and its reference.
#pragma once
#include "kernels/matmul/Grouped.h"

namespace sectile {

std::vector<OptionRow> gateOptions();
bool hasGate(const Invocation &call);
GroupedEpilogue gateOf(const Invocation &call);
void checkGate(const Invocation &call);

} // namespace sectile
