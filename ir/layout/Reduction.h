// How a reduction along one dimension runs: within threads, between lanes, between warps.
#pragma once

#include "ir/layout/Layout.h"

namespace sectile {

struct ReductionPlan {
  /// The reduced tensor's layout: squeeze(axis) without duplicate registers.
  Layout result;
  /// First, in every thread: value i of the partial result combines these registers of the source
  /// (repeats included), in ascending order of their coordinate along the axis in lane 0.
  llvm::SmallVector<llvm::SmallVector<unsigned, 8>, 8> registers;
  /// Then, step by step: value i combines with value i ^ registerXor of the lane `lane ^ laneXor`.
  /// The number within a core; repeats alike.
  struct LaneStep {
    uint32_t laneXor = 0, registerXor = 0;
  };
  llvm::SmallVector<LaneStep, 6> laneSteps;
  /// Last, when warps hold parts: the partial results are a tensor with a new
  /// first dimension of numPartials, in layout `partial` with the same register numbers; converted
  /// to `gathered`, each thread has every part of its results, part p of value i in register
  /// gatheredRegisters[i][p].
  unsigned numPartials = 1;
  Layout partial, gathered;
  llvm::SmallVector<llvm::SmallVector<unsigned, 8>, 8> gatheredRegisters;
};

/// For layouts of one block.
ReductionPlan planReduction(const Layout &layout, unsigned axis);

} // namespace sectile
