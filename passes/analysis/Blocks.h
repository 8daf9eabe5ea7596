// Accesses of blocks of views, whichever operation makes them, and what is known of the addresses
// and masks of accesses of global memory in any form.
#ifndef SECTILE_PASSES_ANALYSIS_BLOCKS_H
#define SECTILE_PASSES_ANALYSIS_BLOCKS_H

#include "ir/cta/Cta.h"
#include "passes/analysis/Contiguity.h"

namespace sectile {

/// Where a view was made, looking through loops that carry it unchanged; null when a branch chooses
/// it or a loop changes it.
tile::MakeViewOp madeView(mlir::Value view);

/// Whether all elements of a view are known to have different addresses: those of an argument of
/// which the launch says so, or of a part of one that has some of its axes, whole and in any order.
bool hasDistinctElements(tile::MakeViewOp view);

/// The block of a view that an operation reads or writes.
struct ViewBlock {
  tile::MakeViewOp view;
  mlir::OperandRange offsets;
  mlir::RankedTensorType tile; ///< what is in it, with the layout of the threads' shares
  mlir::Value when;            ///< null: always

  llvm::ArrayRef<int64_t> shape() const { return tile.getShape(); }
  /// What an analysis knows of what addresses and masks are computed from.
  BlockContiguity contiguity(const ContiguityAnalysis &analysis) const;
};

/// The block that a load, store, atomic operation or copy accesses; nothing for other operations
/// and where the view cannot be told.
std::optional<ViewBlock> blockOf(mlir::Operation *op);

/// Whether an operation loads global memory, by pointers or from a view.
bool isLoad(mlir::Operation *op);
/// Whether such a load may not be repeated, left out or moved.
bool isVolatileLoad(mlir::Operation *op);

/// What is known of the addresses that an access takes, and of its mask if it has one.
struct AccessContiguity {
  Contiguity pointers;
  std::optional<Contiguity> mask;
  int64_t elementBytes;
};
/// For loads, stores, atomic operations and copies of either form.
AccessContiguity contiguityOf(const ContiguityAnalysis &analysis, mlir::Operation *access);

} // namespace sectile

#endif
