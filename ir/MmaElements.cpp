// Which matrix instructions multiply tiles of which types.
#include "ir/MmaElements.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace sectile {

/// What matrix instructions may take elements of this type as, the best first.
static SmallVector<MmaElement, 2> elementsOf(Type type, tile::Precision precision) {
  if (type.isF16())
    return {MmaElement::F16};
  if (type.isBF16())
    return {MmaElement::BF16};
  if (type.isF64())
    return {MmaElement::F64};
  if (type.isInteger(8))
    return {MmaElement::I8};
  if (type.isInteger(32))
    return {MmaElement::I32};
  if (isa<Float8E4M3FNType>(type))
    return {MmaElement::F8E4M3};
  if (isa<Float8E5M2Type>(type))
    return {MmaElement::F8E5M2};
  if (isa<Float8E4M3FNUZType>(type))
    return {MmaElement::F8E4M3FNUZ};
  if (isa<Float8E5M2FNUZType>(type))
    return {MmaElement::F8E5M2FNUZ};
  if (!type.isF32())
    return {};
  switch (precision) {
  case tile::Precision::TF32:
    return {MmaElement::TF32, MmaElement::F32};
  case tile::Precision::TF32x3: // one product of whole numbers is less work than three
    return {MmaElement::F32, MmaElement::TF32};
  case tile::Precision::BF16x3:
  case tile::Precision::BF16x6:
    return {MmaElement::BF16};
  case tile::Precision::IEEE:
    return {MmaElement::F32};
  }
  llvm_unreachable("all precisions are covered");
}

SmallVector<const MmaInstruction *, 4> mmasFor(const Target &target, Type a, Type b, Type sum,
                                               tile::Precision precision) {
  SmallVector<MmaElement, 2> right = elementsOf(b, precision),
                             sums = elementsOf(sum, tile::Precision::IEEE);
  SmallVector<const MmaInstruction *, 4> found;
  for (MmaElement left : elementsOf(a, precision))
    for (const MmaInstruction &each : target.mmas)
      if (each.a == left && is_contained(right, each.b) && is_contained(sums, each.sum) &&
          (!each.promotionInterval || precision == tile::Precision::TF32))
        found.push_back(&each);
  // Small products are summed before large ones for each run along K: the fewer runs, the better.
  if (a.isF32() && !found.empty() && found.front()->a == MmaElement::BF16)
    llvm::sort(found, [](const MmaInstruction *one, const MmaInstruction *other) {
      return std::pair(one->k, one->m) > std::pair(other->k, other->m);
    });
  return found;
}

static Type elementOf(Value operand) {
  if (auto buffer = dyn_cast<cta::BufferType>(operand.getType()))
    return buffer.getElement();
  return tile::elementType(operand.getType());
}

static const MmaInstruction *instructionOf(ArrayRef<int32_t> extents, Value a, Value b, Type sum,
                                           tile::Precision precision, const Target &target) {
  for (const MmaInstruction *each : mmasFor(target, elementOf(a), elementOf(b), sum, precision))
    if (extents == ArrayRef<int32_t>{int(each->m), int(each->n), int(each->k)})
      return each;
  return nullptr;
}

const MmaInstruction *instructionOf(cta::DotOp dot, const Target &target) {
  std::optional<ArrayRef<int32_t>> extents = dot.getInstruction();
  return extents ? instructionOf(*extents, dot.getA(), dot.getB(), elementOf(dot.getAcc()),
                                 dot.getPrecision(), target)
                 : nullptr;
}

const MmaInstruction *instructionOf(cta::DotStartOp dot, const Target &target) {
  return instructionOf(dot.getInstruction(), dot.getA(), dot.getB(),
                       dot.getType().getTile().getElementType(), dot.getPrecision(), target);
}

bool isPromoted(const MmaInstruction &instruction, Value a, Value acc) {
  if (!instruction.promotionInterval)
    return false;
  const bool isOneGroup = cta::shapeOf(a.getType()).back() <= instruction.promotionInterval;
  return !isOneGroup || !(matchPattern(acc, m_AnyZeroFloat()) || matchPattern(acc, m_Zero()));
}

bool isAsynchronous(cta::DotOp dot, const Target &target) {
  const MmaInstruction *instruction = instructionOf(dot, target);
  return instruction && instruction->isAsynchronous() &&
         !isPromoted(*instruction, dot.getA(), dot.getAcc());
}

} // namespace sectile
