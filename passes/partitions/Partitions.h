// Partitions of a kernel: what they may share.
#ifndef SECTILE_PASSES_PARTITIONS_PARTITIONS_H
#define SECTILE_PASSES_PARTITIONS_PARTITIONS_H

#include "ir/cta/Cta.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sectile {

/// Computes before the first of the partitions, once for all, what no loop of theirs has a part in.
void shareScalars(llvm::MutableArrayRef<cta::PartitionOp> partitions);

/// Fails with an error if a partition may read what another one writes: nothing orders the two.
mlir::LogicalResult checkMemoryOfPartitions(mlir::func::FuncOp kernel);

} // namespace sectile

#endif
