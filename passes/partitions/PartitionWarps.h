// What a kernel computes with scalars ahead of some of its operations, so that warps of their own
// can do these by themselves.
#ifndef SECTILE_PASSES_PARTITIONS_PARTITIONWARPS_H
#define SECTILE_PASSES_PARTITIONS_PARTITIONWARPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace sectile {

/// Warps that a partition for copies has: registers are set for four of them together.
inline constexpr unsigned producerWarps = 4;

/// Why warps of their own cannot do what these operations do, which are copies or loads that will
/// become copies; empty when they can.
std::string whyNoPartition(mlir::func::FuncOp kernel, llvm::ArrayRef<mlir::Operation *> operations);

} // namespace sectile

#endif
