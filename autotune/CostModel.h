// The cost model: how long a launch would take on a chip, of what the virtual GPU counted. It ranks
// configurations; docs/autotuner.md has its formulas.
#ifndef SECTILE_AUTOTUNE_COSTMODEL_H
#define SECTILE_AUTOTUNE_COSTMODEL_H

#include "ir/Target.h"
#include "runtime/MachineModel.h"
#include "vgpu/Counters.h"

namespace sectile::autotune {

/// A launch on the virtual GPU, and what of its configuration decides how blocks share a unit.
struct LaunchProfile {
  vgpu::Counters counters;
  unsigned threads = 128;   ///< of one block
  unsigned sharedBytes = 0; ///< of one block
  unsigned registers = 0;   ///< of one thread; 0 where nobody knows
  unsigned stages = 1;
  uint64_t footprint = 0; ///< bytes of the buffers that its arguments are in
};

/// How many blocks are resident on one unit at a time, at least 1.
unsigned residentBlocks(const MachineModel &machine, const Target &target,
                        const LaunchProfile &profile);

double estimateMicroseconds(const MachineModel &machine, const Target &target,
                            const LaunchProfile &profile);

} // namespace sectile::autotune

#endif
