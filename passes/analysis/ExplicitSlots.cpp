// What fills the slots of channels that a kernel makes itself.
#include "passes/analysis/ExplicitSlots.h"

using namespace mlir;

namespace sectile {

SmallVector<tile::FillOp> fillsOf(tile::ReadSlotOp read) {
  SmallVector<tile::FillOp> fills;
  auto wait = read.getSlot().getDefiningOp<tile::WaitOp>();
  if (!wait)
    return fills;
  const unsigned number = cast<OpResult>(read.getSlot()).getResultNumber();
  for (Operation *user : wait.getChannel().getUsers())
    if (auto acquire = dyn_cast<tile::AcquireOp>(user))
      for (Operation *fill : acquire.getSlots()[number].getUsers())
        if (isa<tile::FillOp>(fill))
          fills.push_back(cast<tile::FillOp>(fill));
  return fills;
}

} // namespace sectile
