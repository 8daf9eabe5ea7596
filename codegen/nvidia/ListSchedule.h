// Orders of a block's steps, and how many registers they take.
#ifndef SECTILE_CODEGEN_NVIDIA_LISTSCHEDULE_H
#define SECTILE_CODEGEN_NVIDIA_LISTSCHEDULE_H

#include "codegen/nvidia/RegisterUnits.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/BitVector.h"

namespace sectile::nvidia {

/// What is alive at both ends of a block, with the units that its phis define.
struct Liveness {
  llvm::BitVector in, out;
};

/// Of every block.
std::vector<Liveness> livenessOf(const StepGraph &graph);

/// The most units that are alive at one time.
unsigned peakOf(const StepBlock &block, const Liveness &live, llvm::ArrayRef<unsigned> order);

/// Steps with the longest way to the end of the block first, while no more than `limit` units are
/// alive; else those that leave the fewest alive.
std::vector<unsigned> listSchedule(const StepBlock &block, const Liveness &live, unsigned limit);

} // namespace sectile::nvidia

#endif
