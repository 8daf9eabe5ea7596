// Partitions of a kernel: which warps each has, and what it may share with the others.
#ifndef SECTILE_PASSES_PARTITIONS_PARTITIONS_H
#define SECTILE_PASSES_PARTITIONS_PARTITIONS_H

#include "ir/Target.h"
#include "ir/cta/Cta.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sectile {

/// The partition that an operation is in; null for the main one.
mlir::Operation *partitionOf(mlir::Operation *op);

/// The partitions in which all warps work, in order.
llvm::SmallVector<cta::PartitionOp> computingPartitionsOf(mlir::func::FuncOp kernel);

/// Those that compute are numbered right after the kernel's own warps: groups of four stay groups.
unsigned firstWarpOf(cta::PartitionOp partition);

/// Registers of each thread at the launch, where the kernel moves them between its warps later.
unsigned launchedRegistersOf(unsigned warps, const Target &target);

/// Makes what a partition takes of the tiles around it again in the partition, whose warps have
/// registers of their own. Fails, having said so, where that is more than a computation.
mlir::LogicalResult sinkTiles(cta::PartitionOp partition);

/// Computes before the first of the partitions, once for all, what no loop of theirs has a part in.
void shareScalars(llvm::MutableArrayRef<cta::PartitionOp> partitions);

/// Fails with an error if a partition may read what another one writes: nothing orders the two.
mlir::LogicalResult checkMemoryOfPartitions(mlir::func::FuncOp kernel);

} // namespace sectile

#endif
