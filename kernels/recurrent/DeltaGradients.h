// What the gradients of the delta rule with decays by head and by channel share.
#pragma once
#include "kernels/recurrent/DeltaRule.h"
#include <functional>

namespace sectile::delta {

// Of vectors x / sqrt(sum of squares + eps), whose factors these are: the gradient of x.
template <class T>
Tile<float> beforeNorm(const Tile<float> &gradient, const Tile<T> &rows, const Tile<float> &factor,
                       const DeltaConfig &config) {
  if (!config.l2norm)
    return gradient;
  const auto each = expand(factor, 1), normal = cast<float>(rows) * each;
  return (gradient - normal * expand(sum(gradient * normal, 1), 1)) * each;
}

// Launches what D and z take of the gradient of o, and gives that of o without z. With z
// `launchUngated` is called to launch what makes o without it once more.
template <class T>
Tensor<T, 4> launchThroughGates(Use &use, const DeltaCall &call,
                                const std::function<void(const Tensor<T, 4> &o)> &launchUngated);

// Adds the gradients of outputs and of these inputs, and what completeSpec does.
void completeGradients(KernelSpec &spec, const std::vector<std::string> &inputs);

} // namespace sectile::delta
