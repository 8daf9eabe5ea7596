// Verifiers of the `tile` operations beside the computation.
#include "ir/tile/Assembly.h"
#include "ir/tile/Tile.h"
#include "ir/tile/Verify.h"

using namespace mlir;
using namespace sectile::tile;

LogicalResult FpCastOp::verify() {
  return sameTile(*this, getSource().getType(), getResult().getType(), "source and result");
}

LogicalResult PtrToIntOp::verify() {
  return sameTile(*this, getSource().getType(), getResult().getType(), "source and result");
}

LogicalResult IntToPtrOp::verify() {
  return sameTile(*this, getSource().getType(), getResult().getType(), "source and result");
}

static LogicalResult verifyElements(Operation *op) {
  if (op->getNumResults() + op->getNumOperands() == 0)
    return success();
  Type first = op->getNumResults() ? op->getResult(0).getType() : op->getOperand(0).getType();
  for (Type type : llvm::concat<const Type>(llvm::to_vector(op->getOperandTypes()),
                                            llvm::to_vector(op->getResultTypes())))
    if (failed(sameTile(op, type, first, "operands and results")))
      return failure();
  return success();
}

/// What is not pure does what nobody knows.
static void
unknownEffects(SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  effects.emplace_back(MemoryEffects::Read::get());
  effects.emplace_back(MemoryEffects::Write::get());
}

LogicalResult InlineAsmOp::verify() {
  if (failed(verifyElements(*this)))
    return failure();
  std::string why;
  if (!AssemblyRegisters::get(getConstraints(), getPack(), getResultTypes(), getOperandTypes(),
                              why))
    return emitOpError(why);
  return success();
}

LogicalResult InlineAsmOp::verifyRegions() {
  if (getMeaning().empty())
    return success();
  if (getNumResults() == 0)
    return emitOpError("has a meaning, but no result");
  return verifyFunction(*this, getMeaning().front(), "meaning");
}

void InlineAsmOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  if (!getPure())
    unknownEffects(effects);
}

LogicalResult ExternCallOp::verify() { return verifyElements(*this); }

void ExternCallOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  if (!getPure())
    unknownEffects(effects);
}

LogicalResult HintOp::verify() {
  size_t axes = std::max<size_t>(shapeOf(getSource().getType()).size(), 1);
  for (std::optional<ArrayRef<int64_t>> numbers :
       {getDivisible(), getContiguous(), getConstant()}) {
    if (!numbers)
      continue;
    if (numbers->size() != axes)
      return emitOpError("has ") << numbers->size() << " numbers for " << axes << " axes";
    if (llvm::any_of(*numbers, [](int64_t number) { return number < 1 || number > INT32_MAX; }))
      return emitOpError("promises numbers of at least 1, in 32 bits");
  }
  for (auto lengths : {getContiguous(), getConstant()})
    for (auto [extent, length] :
         llvm::zip(shapeOf(getSource().getType()), lengths.value_or(ArrayRef<int64_t>())))
      if (extent % length != 0)
        return emitOpError("promises runs of ") << length << " along an axis of " << extent;
  return success();
}

LogicalResult PrintOp::verify() {
  if (getIsUnsigned() && getIsUnsigned()->size() != getValues().size())
    return emitOpError("says of ")
           << getIsUnsigned()->size() << " values whether they are unsigned, and prints "
           << getValues().size();
  return success();
}
