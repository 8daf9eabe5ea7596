// Partitions of a kernel: which warps each has, and what it may share with the others.
#ifndef SECTILE_PASSES_PARTITIONS_PARTITIONS_H
#define SECTILE_PASSES_PARTITIONS_PARTITIONS_H

#include "ir/Target.h"
#include "ir/cta/Cta.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <optional>

namespace sectile {

/// The partition that an operation is in; null for the main one.
mlir::Operation *partitionOf(mlir::Operation *op);

/// Whether a partition does more than one thread can do for all: fill slots by the engine, from
/// scalars.
bool computes(tile::PartitionOp partition);

/// Warps of the computing partition that an operation is in; nothing where it is in none.
std::optional<unsigned> warpsOfPartition(mlir::Operation *op);

/// The partitions in which all warps work, in order.
llvm::SmallVector<cta::PartitionOp> computingPartitionsOf(mlir::func::FuncOp kernel);

/// Computing partitions are numbered right after the kernel's own warps, the larger ones first, and
/// producers after them. Numbers of warps are powers of two, so that groups of four stay groups
/// wherever the kernel's own warps are such groups.
unsigned firstWarpOf(cta::PartitionOp partition);

/// A block's barriers, which the chip numbers: number 0 is for all threads, 1 for the main
/// partition while there are others, then one for each computing partition, and the rest for named
/// barriers.
inline constexpr unsigned barriersOfBlock = 16, mainBarrier = 1;
unsigned barrierOf(cta::PartitionOp partition);
unsigned firstNamedBarrier(mlir::func::FuncOp kernel);

/// Registers of each thread at the launch, where the kernel moves them between its warps later.
unsigned launchedRegistersOf(unsigned warps, const Target &target);

/// Makes what a partition takes of the tiles around it again in the partition, whose warps have
/// registers of their own. Fails, having said so, where that is more than a computation.
mlir::LogicalResult sinkTiles(mlir::Region &partition);

/// Computes before the first of the partitions, once for all, what no loop of theirs has a part in:
/// check-channels then sees that their loops have the same bounds.
void shareScalars(llvm::MutableArrayRef<cta::PartitionOp> partitions);

/// Fails with an error if a partition may read what another one writes: nothing orders the two.
mlir::LogicalResult checkMemoryOfPartitions(mlir::func::FuncOp kernel);

} // namespace sectile

#endif
