// What partitions can do: a producer partition has to compute itself the scalars that its copies
// need, and none may read what another writes.
#ifndef SECTILE_PASSES_PARTITIONS_PARTITIONWARPS_H
#define SECTILE_PASSES_PARTITIONS_PARTITIONWARPS_H

#include "passes/analysis/Warps.h"
#include <string>

namespace sectile {

/// Warps that a partition for copies has: one, or the four that registers are moved for together.
inline unsigned producerWarpsOf(const Target &target) {
  return target.movesRegisters ? warpsOfWarpgroup : 1;
}

/// Why a producer partition cannot do these operations, which are copies or loads that will become
/// copies; empty when it can.
std::string whyNoPartition(mlir::func::FuncOp kernel, llvm::ArrayRef<mlir::Operation *> operations);

/// Fails with an error if a partition may read what another one writes: nothing orders the two.
mlir::LogicalResult checkMemoryOfPartitions(mlir::func::FuncOp kernel);

} // namespace sectile

#endif
