// Verifiers, folders and builders of the `tile` operations.
#include "ir/tile/Tile.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sectile::tile;

#define GET_OP_CLASSES
#include "ir/tile/TileOps.cpp.inc"

/// Splat constants stay constants under every change of shape.
static OpFoldResult foldSplat(Attribute source, Type resultType) {
  if (auto splat = dyn_cast_if_present<SplatElementsAttr>(source))
    return SplatElementsAttr::get(cast<ShapedType>(resultType), splat.getSplatValue<Attribute>());
  return {};
}

//===-- Shapes
//------------------------------------------------------------------------------------------------------===//

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

//===-- Memory
//------------------------------------------------------------------------------------------------------===//

/// Whether two types have the same shape and encoding, whatever their elements.
static LogicalResult sameTile(Operation *op, Type a, Type b, StringRef what) {
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

LogicalResult AddPtrOp::verify() {
  return sameTile(*this, getPtr().getType(), getOffset().getType(), "pointers and offsets");
}

OpFoldResult AddPtrOp::fold(FoldAdaptor adaptor) {
  if (Attribute offset = adaptor.getOffset()) {
    if (auto value = dyn_cast<IntegerAttr>(offset); value && value.getValue().isZero())
      return getPtr();
    if (auto splat = dyn_cast<SplatElementsAttr>(offset);
        splat && splat.getSplatValue<APInt>().isZero())
      return getPtr();
  }
  return {};
}

static Type pointee(Type ptr) {
  return withElementType(ptr, cast<PtrType>(elementType(ptr)).getElement());
}

void LoadOp::build(OpBuilder &builder, OperationState &state, Value ptr, Value mask, Value other) {
  build(builder, state, pointee(ptr.getType()), ptr, mask, other, Cache::Default, Eviction::Normal,
        /*isVolatile=*/false, /*vector=*/IntegerAttr());
}

LogicalResult LoadOp::verify() {
  if (getResult().getType() != pointee(getPtr().getType()))
    return emitOpError("of ") << getPtr().getType() << " gives " << pointee(getPtr().getType())
                              << ", not " << getResult().getType();
  if (getMask() &&
      failed(sameTile(*this, getPtr().getType(), getMask().getType(), "pointers and mask")))
    return failure();
  if (getOther() && getOther().getType() != getResult().getType())
    return emitOpError("gives ") << getResult().getType()
                                 << " where the mask is true, but `other` is "
                                 << getOther().getType();
  if (getOther() && !getMask())
    return emitOpError("has `other` without a mask");
  return success();
}

void LoadOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  effects.emplace_back(MemoryEffects::Read::get());
  if (getIsVolatile())
    effects.emplace_back(MemoryEffects::Write::get());
}

void StoreOp::build(OpBuilder &builder, OperationState &state, Value ptr, Value value, Value mask) {
  build(builder, state, ptr, value, mask, Cache::Default, Eviction::Normal,
        /*vector=*/IntegerAttr());
}

LogicalResult StoreOp::verify() {
  if (getValue().getType() != pointee(getPtr().getType()))
    return emitOpError("to ") << getPtr().getType() << " takes " << pointee(getPtr().getType())
                              << ", not " << getValue().getType();
  if (getMask() &&
      failed(sameTile(*this, getPtr().getType(), getMask().getType(), "pointers and mask")))
    return failure();
  return success();
}

LogicalResult MakeViewOp::verify() {
  unsigned rank = getType().getRank();
  if (getExtents().size() != rank || getStrides().size() != rank)
    return emitOpError("of rank ") << rank << " has " << getExtents().size() << " extents and "
                                   << getStrides().size() << " strides";
  if (getPtr().getType().getElement() != getType().getElement())
    return emitOpError("keeps the element type");
  return success();
}

static LogicalResult verifyBlock(Operation *op, ViewType view, RankedTensorType block,
                                 size_t offsets) {
  if (view.getRank() != block.getRank() || offsets != view.getRank())
    return op->emitOpError() << "on a view of rank " << view.getRank() << " has a block of rank "
                             << block.getRank() << " and " << offsets << " offsets";
  if (view.getElement() != block.getElementType())
    return op->emitOpError() << "on a view of " << view.getElement() << " has a block of "
                             << block.getElementType();
  return success();
}

LogicalResult LoadBlockOp::verify() {
  if (auto padding = getPaddingAttr(); padding && padding.getType() != getType().getElementType())
    return emitOpError("padding is ")
           << padding.getType() << ", elements are " << getType().getElementType();
  return verifyBlock(*this, getView().getType(), getType(), getOffsets().size());
}

void LoadBlockOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  effects.emplace_back(MemoryEffects::Read::get());
}

LogicalResult StoreBlockOp::verify() {
  return verifyBlock(*this, getView().getType(), getValue().getType(), getOffsets().size());
}

//===-- Dot and reduce
//----------------------------------------------------------------------------------------------===//

LogicalResult DotOp::verify() {
  auto a = getA().getType(), b = getB().getType(), acc = getAcc().getType();
  if (a.getDimSize(1) != b.getDimSize(0))
    return emitOpError("of ") << shapeText(a.getShape()) << " and " << shapeText(b.getShape())
                              << ": the inner extents differ";
  if (acc.getDimSize(0) != a.getDimSize(0) || acc.getDimSize(1) != b.getDimSize(1))
    return emitOpError("of ") << shapeText(a.getShape()) << " and " << shapeText(b.getShape())
                              << " has an accumulator of " << shapeText(acc.getShape());
  bool fp8 = llvm::isa<Float8E4M3FNType, Float8E5M2Type>(a.getElementType()) &&
             llvm::isa<Float8E4M3FNType, Float8E5M2Type>(b.getElementType());
  if (a.getElementType() != b.getElementType() && !fp8)
    return emitOpError("operands are ") << a.getElementType() << " and " << b.getElementType();
  Type sum = acc.getElementType();
  bool fits = a.getElementType().isInteger(8) ? sum.isInteger(32)
              : a.getElementType().isF64()    ? sum.isF64()
              : a.getElementType().isF16()    ? sum.isF32() || sum.isF16()
                                              : sum.isF32();
  if (!fits)
    return emitOpError("of ") << a.getElementType() << " operands cannot accumulate in " << sum;
  return success();
}

LogicalResult ReduceOp::verify() {
  if (getSources().empty())
    return emitOpError("needs a tile to reduce");
  if (getSources().size() != getResults().size())
    return emitOpError("has ") << getSources().size() << " tiles and " << getResults().size()
                               << " results";
  auto first = cast<RankedTensorType>(getSources()[0].getType());
  if (getAxis() >= first.getRank())
    return emitOpError("axis ") << getAxis() << " is beyond the rank " << first.getRank();
  SmallVector<int64_t> shape(first.getShape());
  shape.erase(shape.begin() + getAxis());
  for (auto [source, result] : llvm::zip(getSources(), getResults())) {
    auto type = cast<RankedTensorType>(source.getType());
    if (type.getShape() != first.getShape() || type.getEncoding() != first.getEncoding())
      return emitOpError("tiles differ in shape or layout");
    if (elementType(result.getType()) != type.getElementType() ||
        shapeOf(result.getType()) != ArrayRef<int64_t>(shape))
      return emitOpError("of ") << type << " along axis " << getAxis() << " cannot give "
                                << result.getType();
  }
  return success();
}

LogicalResult ReduceOp::verifyRegions() {
  size_t n = getSources().size();
  Block &body = getCombiner().front();
  if (body.getNumArguments() != 2 * n)
    return emitOpError("combiner takes ")
           << body.getNumArguments() << " values instead of " << 2 * n;
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield || yield.getValues().size() != n)
    return emitOpError("combiner must yield one value per tile");
  for (size_t i = 0; i < n; ++i) {
    Type element = elementType(getSources()[i].getType());
    if (body.getArgument(i).getType() != element || body.getArgument(n + i).getType() != element ||
        yield.getValues()[i].getType() != element)
      return emitOpError("combiner's value ") << i << " must be " << element << " throughout";
  }
  return success();
}
