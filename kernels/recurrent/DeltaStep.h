// delta_step and rwkv7_step: which rule they go by, and their reference.
#pragma once
#include "kernels/registry/Registry.h"

namespace sectile::delta_step {

// What a step writes to the state, as the option `rule` counts it.
enum class Rule : int {
  delta,  // beta (v - S k)
  add,    // beta v
  mamba2, // the same with beta = softplus(g + dt_bias), by which the state decays, too
  rwkv7   // beta v and, along b, what a has in common with the state before the step
};
enum class Gate : int { none, softplus, sigmoid };

// As KernelSpec::reference.
std::vector<HostArray> reference(const Invocation &, std::span<const HostArray> inputs, Arithmetic);

} // namespace sectile::delta_step
