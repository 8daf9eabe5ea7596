// How fast the virtual GPU runs the kernels that tests lean on.
#ifndef SECTILE_BENCH_VIRTUAL_H
#define SECTILE_BENCH_VIRTUAL_H

#include "kernels/registry/Registry.h"
#include <cstdint>
#include <sectile/device.h>
#include <vector>

namespace sectile::bench {

struct VirtualSpeed {
  Invocation call;
  double seconds; ///< of one launch, checks on; the fastest of three
  std::uint64_t blocks, mma;
};

/// A 512×512×512 matmul and one attention head of 1024 tokens, both fp16. The device must be a
/// virtual one.
std::vector<VirtualSpeed> measureVirtual(const Device &device);

} // namespace sectile::bench

#endif
