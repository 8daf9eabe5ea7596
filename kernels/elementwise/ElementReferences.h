// What the kernels of this family must compute, done plainly on the host.
#pragma once
#include "kernels/references/References.h"

namespace sectile {

enum class Activation : int;

// y = f(x), and dx = f'(x) dy.
HostArray activationReference(const HostArray &x, Activation kind, Arithmetic arithmetic);
HostArray activationBackwardReference(const HostArray &x, const HostArray &dy, Activation kind,
                                      Arithmetic arithmetic);

struct GatedGradients {
  HostArray dgate, dup;
};
// y = f(gate) up and its gradients.
HostArray gatedReference(const HostArray &gate, const HostArray &up, Activation kind,
                         Arithmetic arithmetic);
GatedGradients gatedBackwardReference(const HostArray &gate, const HostArray &up,
                                      const HostArray &dy, Activation kind, Arithmetic arithmetic);

// y = x / (1 - p) where the number drawn for the element, by its place in row-major order, is p or
// more; else 0. Its own gradient.
HostArray dropoutReference(const HostArray &x, double p, std::uint64_t seed, Arithmetic arithmetic);

// y[i] = table[indices[i]], and the gradient of the table.
HostArray embeddingReference(const HostArray &table, const HostArray &indices, double scale,
                             Arithmetic arithmetic);
HostArray embeddingBackwardReference(const HostArray &table, const HostArray &indices,
                                     const HostArray &dy, double scale, Arithmetic arithmetic);

} // namespace sectile
