// Verifiers and folders of the `tile` operations on shapes.
#include "ir/tile/Tile.h"
#include "ir/tile/Verify.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace sectile::tile;

/// Splat constants stay constants under every change of shape.
static OpFoldResult foldSplat(Attribute source, Type resultType) {
  if (auto splat = dyn_cast_if_present<SplatElementsAttr>(source))
    return SplatElementsAttr::get(cast<ShapedType>(resultType), splat.getSplatValue<Attribute>());
  return {};
}

LogicalResult SplatOp::verify() {
  if (getResult().getType().getElementType() != getSource().getType())
    return emitOpError("makes a tile of ") << getResult().getType().getElementType()
                                           << " from a scalar of " << getSource().getType();
  return success();
}

OpFoldResult SplatOp::fold(FoldAdaptor adaptor) {
  if (Attribute value = adaptor.getSource())
    return SplatElementsAttr::get(cast<ShapedType>(getType()), value);
  return {};
}

LogicalResult ExpandDimsOp::verify() {
  ArrayRef<int64_t> from = getSource().getType().getShape();
  if (getAxis() > from.size())
    return emitOpError("axis ") << getAxis() << " is beyond the rank " << from.size()
                                << " of the source";
  SmallVector<int64_t> expected(from);
  expected.insert(expected.begin() + getAxis(), 1);
  if (ArrayRef<int64_t>(expected) != getResult().getType().getShape())
    return emitOpError("gives shape ")
           << shapeText(expected) << ", not " << shapeText(getResult().getType().getShape());
  if (getSource().getType().getElementType() != getResult().getType().getElementType())
    return emitOpError("keeps the element type");
  return success();
}

OpFoldResult ExpandDimsOp::fold(FoldAdaptor adaptor) {
  return foldSplat(adaptor.getSource(), getType());
}

LogicalResult BroadcastOp::verify() {
  auto from = getSource().getType(), to = getResult().getType();
  if (from.getElementType() != to.getElementType())
    return emitOpError("keeps the element type");
  if (from.getRank() != to.getRank())
    return emitOpError("keeps the rank: ")
           << shapeText(from.getShape()) << " to " << shapeText(to.getShape());
  for (auto [a, b] : llvm::zip(from.getShape(), to.getShape()))
    if (a != b && a != 1)
      return emitOpError("cannot repeat ")
             << shapeText(from.getShape()) << " to " << shapeText(to.getShape())
             << ": only extents of 1 repeat";
  return success();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getSource().getType() == getType())
    return getSource();
  return foldSplat(adaptor.getSource(), getType());
}

LogicalResult ReshapeOp::verify() {
  auto from = getSource().getType(), to = getResult().getType();
  if (from.getElementType() != to.getElementType())
    return emitOpError("keeps the element type");
  if (from.getNumElements() != to.getNumElements())
    return emitOpError("keeps the number of elements: ")
           << shapeText(from.getShape()) << " has " << from.getNumElements() << ", "
           << shapeText(to.getShape()) << " has " << to.getNumElements();
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getSource().getType() == getType())
    return getSource();
  return foldSplat(adaptor.getSource(), getType());
}

LogicalResult PermuteOp::verify() {
  auto from = getSource().getType(), to = getResult().getType();
  ArrayRef<int32_t> order = getOrder();
  SmallVector<bool> seen(from.getRank(), false);
  if (order.size() != seen.size())
    return emitOpError("order has ") << order.size() << " axes, the source has " << seen.size();
  for (auto [i, axis] : llvm::enumerate(order)) {
    if (axis < 0 || axis >= from.getRank() || seen[axis])
      return emitOpError("order is not a permutation of the axes");
    seen[axis] = true;
    if (i >= static_cast<size_t>(to.getRank()) || to.getDimSize(i) != from.getDimSize(axis))
      return emitOpError("result shape ")
             << shapeText(to.getShape()) << " is not the permuted " << shapeText(from.getShape());
  }
  if (from.getElementType() != to.getElementType())
    return emitOpError("keeps the element type");
  return success();
}

OpFoldResult PermuteOp::fold(FoldAdaptor adaptor) {
  bool identity = llvm::all_of(llvm::enumerate(getOrder()),
                               [](auto p) { return static_cast<int32_t>(p.index()) == p.value(); });
  if (identity && getSource().getType() == getType())
    return getSource();
  return foldSplat(adaptor.getSource(), getType());
}

//===-- Moving elements
//---------------------------------------------------------------------------===//

LogicalResult JoinOp::verify() {
  auto from = getA().getType(), to = getResult().getType();
  SmallVector<int64_t> expected(from.getShape());
  expected.push_back(2);
  if (to.getShape() != ArrayRef<int64_t>(expected))
    return emitOpError("gives shape ")
           << shapeText(expected) << ", not " << shapeText(to.getShape());
  if (from.getElementType() != to.getElementType())
    return emitOpError("keeps the element type");
  return success();
}

LogicalResult SplitOp::verify() {
  auto from = getSource().getType(), to = getFirst().getType();
  if (from.getRank() == 0 || from.getShape().back() != 2)
    return emitOpError("needs a last axis of extent 2, not ") << shapeText(from.getShape());
  if (to.getShape() != from.getShape().drop_back())
    return emitOpError("gives shape ")
           << shapeText(from.getShape().drop_back()) << ", not " << shapeText(to.getShape());
  if (from.getElementType() != to.getElementType())
    return emitOpError("keeps the element type");
  return success();
}

LogicalResult GatherOp::verify() {
  auto from = getSource().getType(), to = getResult().getType();
  auto indices = cast<RankedTensorType>(getIndices().getType());
  if (getAxis() >= from.getRank())
    return emitOpError("axis ") << getAxis() << " is beyond the rank " << from.getRank();
  if (from.getElementType() != to.getElementType())
    return emitOpError("keeps the element type");
  if (failed(sameTile(*this, indices, to, "indices and result")))
    return failure();
  if (from.getRank() != to.getRank())
    return emitOpError("keeps the rank");
  for (auto [axis, extents] : llvm::enumerate(llvm::zip(from.getShape(), to.getShape())))
    if (axis != getAxis() && std::get<0>(extents) != std::get<1>(extents))
      return emitOpError("of ") << shapeText(from.getShape()) << " by indices of "
                                << shapeText(to.getShape()) << " along axis " << getAxis()
                                << ": the other extents differ";
  return success();
}
