// How long the library's kernels take.
#ifndef SECTILE_BENCH_KERNELS_H
#define SECTILE_BENCH_KERNELS_H

#include "kernels/registry/Registry.h"
#include <sectile/bench.h>

namespace sectile::bench {

/// Of the inputs and outputs that are there, each once: what any such kernel moves at least.
double leastBytes(const Invocation &call); // without arrays that are updated

/// All launches of one call, on these inputs (by their place among the arguments). Outputs are
/// allocated before the first.
Timing timeKernel(const Device &device, const Invocation &call, const Config &config,
                  std::span<const HostArray> inputs);

} // namespace sectile::bench

#endif
