// Channels that a kernel fills and reads itself, while they are operations of `tile`.
#ifndef SECTILE_PASSES_ANALYSIS_EXPLICITSLOTS_H
#define SECTILE_PASSES_ANALYSIS_EXPLICITSLOTS_H

#include "ir/tile/Tile.h"

namespace sectile {

/// What is copied to the slots that an operation reads.
llvm::SmallVector<tile::FillOp> fillsOf(tile::ReadSlotOp read);

} // namespace sectile

#endif
