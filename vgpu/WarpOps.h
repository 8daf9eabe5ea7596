// The operations of a whole warp, executed once for all lanes when the last has arrived.
#pragma once
#include "vgpu/Block.h"

namespace sectile::vgpu {

struct WarpOp {
  Block &block;
  Warp &warp;
  uint64_t lanes; // those that take part
  Op op;
  uint32_t modifiers;
  uint32_t site;

  uint32_t *registers(unsigned lane) const { return block.laneOf(warp, lane).registers; }
  // Reports that not all lanes take part, and says whether they do.
  bool wholeWarp() const;
};

void runWarpOp(const WarpOp &op);

// The larger families, in files of their own.
void runMma(const WarpOp &op);    // mma.sync
void runAmdMma(const WarpOp &op); // MFMA and WMMA
void runMatrixMove(const WarpOp &op);

} // namespace sectile::vgpu
