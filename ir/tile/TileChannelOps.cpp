// Verifiers of the `tile` operations on channels.
#include "ir/tile/Tile.h"

using namespace mlir;
using namespace sectile::tile;

LogicalResult ChannelOp::verify() {
  if (getType().getDepth() < 1 || getType().getTiles().empty())
    return emitOpError("has no slot, or slots without a tile");
  return success();
}

LogicalResult MbarriersOp::verify() {
  if (getType().getCount() < 1 || getType().getCount() > 64)
    return emitOpError("makes 1 to 64 mbarriers");
  return success();
}

static LogicalResult verifySlots(Operation *op, ChannelType channel) {
  if (channel.getTiles().size() == op->getNumResults() &&
      llvm::equal(channel.getTiles(), op->getResultTypes(), [](RankedTensorType tile, Type slot) {
        return cast<SlotType>(slot).getTile() == tile;
      }))
    return success();
  return op->emitOpError("gives other slots than its channel has");
}

LogicalResult AcquireOp::verify() { return verifySlots(*this, getChannel().getType()); }
LogicalResult WaitOp::verify() { return verifySlots(*this, getChannel().getType()); }

// A slot's layout follows from all of its readers, so that only the tile beside it has one.
static LogicalResult verifySlotTile(Operation *op, SlotType slot, Type type) {
  auto tile = cast<RankedTensorType>(type);
  if (slot.getTile().getShape() == tile.getShape() &&
      slot.getTile().getElementType() == tile.getElementType())
    return success();
  return op->emitOpError("has another tile than its slot");
}

LogicalResult FillOp::verify() {
  return verifySlotTile(*this, getSlot().getType(), getTile().getType());
}
LogicalResult ReadSlotOp::verify() { return verifySlotTile(*this, getSlot().getType(), getType()); }
