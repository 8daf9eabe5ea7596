// Which warps do an operation: those of the partition around it. How many these are, and the
// numbers that warps and barriers of partitions have.
#ifndef SECTILE_PASSES_ANALYSIS_WARPS_H
#define SECTILE_PASSES_ANALYSIS_WARPS_H

#include "ir/cta/Cta.h"
#include "passes/Kernel.h"
#include <optional>

namespace sectile {

/// The partition that an operation is in; null for the main one.
mlir::Operation *partitionOf(mlir::Operation *op);

/// Whether a partition does more than one thread can do for all: fill slots by the engine, from
/// scalars, and use mbarriers.
bool computes(tile::PartitionOp partition);

/// Warps of the computing partition that an operation is in; nothing where it is in none.
std::optional<unsigned> warpsOfPartition(mlir::Operation *op);
/// Warps that compute together where an operation is: of that partition, or else of the main one.
unsigned warpsOf(mlir::Operation *op);

/// Whether one thread does an operation for a partition that only copies.
bool isForOneThread(mlir::Operation *op);

/// The partitions in which all warps work, in order.
llvm::SmallVector<cta::PartitionOp> computingPartitionsOf(mlir::func::FuncOp kernel);

/// Warps that issue a `wgmma` together, and between which registers are moved.
inline constexpr unsigned warpsOfWarpgroup = 4;

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

} // namespace sectile

#endif
