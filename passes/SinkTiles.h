// Tiles that a partition takes from around it are made again in the partition.
#ifndef SECTILE_PASSES_SINKTILES_H
#define SECTILE_PASSES_SINKTILES_H

#include "mlir/IR/Region.h"
#include "mlir/Support/LLVM.h"

namespace sectile {

/// Makes what a partition takes of the tiles around it again in the partition, whose warps have
/// registers of their own. Fails, having said so, where that is more than a computation.
mlir::LogicalResult sinkTiles(mlir::Region &partition);

} // namespace sectile

#endif
