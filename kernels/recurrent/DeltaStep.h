// delta_step: which rule it goes by, and its reference.
#pragma once
#include "kernels/registry/Registry.h"

namespace sectile::delta_step {

// What a step writes to the state, as the option `rule` counts it.
enum class Rule : int {
  delta, // beta (v - S k)
  add,   // beta v
  mamba2 // the same with beta = softplus(g + dt_bias), by which the state decays, too
};
enum class Gate : int { none, softplus, sigmoid };

// As KernelSpec::reference.
std::vector<HostArray> reference(const Invocation &, std::span<const HostArray> inputs, Arithmetic);

} // namespace sectile::delta_step
