// The generated parts of the `tile` operations, and what their verifiers share.
#include "ir/tile/Tile.h"
#include "ir/tile/Verify.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace sectile::tile;

#define GET_OP_CLASSES
#include "ir/tile/TileOps.cpp.inc"

namespace sectile::tile {

LogicalResult sameTile(Operation *op, Type a, Type b, StringRef what) {
  auto ta = dyn_cast<RankedTensorType>(a), tb = dyn_cast<RankedTensorType>(b);
  if (static_cast<bool>(ta) != static_cast<bool>(tb))
    return op->emitOpError() << what << ": one is a scalar, the other a tile";
  if (ta && ta.getShape() != tb.getShape())
    return op->emitOpError() << what << ": shapes " << shapeText(ta.getShape()) << " and "
                             << shapeText(tb.getShape()) << " differ";
  if (ta && ta.getEncoding() != tb.getEncoding())
    return op->emitOpError() << what << ": layouts differ";
  return success();
}

Type pointee(Type ptr) {
  return withElementType(ptr, cast<PtrType>(elementType(ptr)).getElement());
}

} // namespace sectile::tile
