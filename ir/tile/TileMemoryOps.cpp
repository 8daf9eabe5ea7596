// Verifiers, folders and builders of the `tile` operations on global memory.
#include "ir/tile/Tile.h"
#include "ir/tile/Verify.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace sectile::tile;

LogicalResult sectile::tile::verifyVector(Operation *op, std::optional<uint32_t> vector) {
  if (vector && (!llvm::isPowerOf2_32(*vector) || *vector > 16))
    return op->emitOpError() << "moves vectors of 1, 2, 4, 8 or 16 elements, not of "
                             << int32_t(*vector);
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
  return verifyVector(*this, getVector());
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
  return verifyVector(*this, getVector());
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

void LoadBlockOp::build(OpBuilder &builder, OperationState &state, Type result, Value view,
                        ValueRange offsets, TypedAttr padding, Cache cache, Eviction eviction) {
  build(builder, state, result, view, offsets, /*when=*/Value(), padding, cache, eviction);
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
  if (getCache() == Cache::Volatile)
    effects.emplace_back(MemoryEffects::Write::get());
}

LogicalResult StoreBlockOp::verify() {
  return verifyBlock(*this, getView().getType(), getValue().getType(), getOffsets().size());
}

//===-- Atomics
//-----------------------------------------------------------------------------------===//

static bool isFloatKind(AtomicKind kind) {
  return kind == AtomicKind::FAdd || kind == AtomicKind::FMax || kind == AtomicKind::FMin;
}

static LogicalResult verifyAtomic(Operation *op, AtomicKind kind, Type element) {
  bool floats = isa<FloatType>(element);
  if (isa<PtrType>(element))
    return op->emitOpError("does not work on pointers");
  if (kind != AtomicKind::Exchange && floats != isFloatKind(kind))
    return op->emitOpError() << stringifyAtomicKind(kind) << " does not work on " << element;
  unsigned bits = element.getIntOrFloatBitWidth();
  if (bits != 16 && bits != 32 && bits != 64)
    return op->emitOpError() << "does not work on elements of " << bits << " bits";
  return success();
}

LogicalResult AtomicRMWOp::verify() {
  Type type = getValue().getType();
  if (type != pointee(getPtr().getType()) || getResult().getType() != type)
    return emitOpError("on ") << getPtr().getType() << " takes and gives "
                              << pointee(getPtr().getType());
  if (getMask() && failed(sameTile(*this, type, getMask().getType(), "values and mask")))
    return failure();
  if (failed(verifyVector(*this, getVector())))
    return failure();
  return verifyAtomic(*this, getKind(), elementType(type));
}

LogicalResult AtomicCasOp::verify() {
  Type type = getValue().getType();
  if (type != pointee(getPtr().getType()) || getResult().getType() != type ||
      getExpected().getType() != type)
    return emitOpError("on ") << getPtr().getType() << " takes and gives "
                              << pointee(getPtr().getType());
  if (getMask() && failed(sameTile(*this, type, getMask().getType(), "values and mask")))
    return failure();
  unsigned bits = elementType(type).getIntOrFloatBitWidth();
  if (bits != 16 && bits != 32 && bits != 64)
    return emitOpError("does not work on elements of ") << bits << " bits";
  return success();
}

LogicalResult AtomicBlockOp::verify() {
  if (getResult().getType() != getValue().getType())
    return emitOpError("of ") << getValue().getType() << " gives the same type";
  if (failed(verifyBlock(*this, getView().getType(), getValue().getType(), getOffsets().size())))
    return failure();
  return verifyAtomic(*this, getKind(), getView().getType().getElement());
}
