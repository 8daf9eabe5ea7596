// Operands of dots that are read from shared memory: where they come from, and by whom they are
// read.
#include "passes/layouts/DotOperands.h"
#include "ir/MmaElements.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "passes/analysis/LayoutRules.h"

using namespace mlir;

namespace sectile {

void readBuffer(OpBuilder &builder, const BufferUse &use, Value buffer) {
  bool inOrder = llvm::is_sorted(use.order);
  if (!inOrder) {
    auto type = cast<cta::BufferType>(buffer.getType());
    SmallVector<int64_t> order(use.order.begin(), use.order.end()), shape;
    for (int64_t axis : order)
      shape.push_back(type.getShape()[axis]);
    auto layout =
        cta::LayoutAttr::get(type.getContext(), type.getLayout().getLayout().permute(order));
    auto permuted = cta::BufferType::get(type.getContext(), shape, type.getElement(), layout);
    buffer = cta::PermuteBufferOp::create(builder, use.operand->getOwner()->getLoc(), permuted,
                                          buffer, use.order);
  }
  use.operand->set(buffer);
}

/// Whether a buffer of this shape can be read through other axes: repeats along two of them lie in
/// memory in an order that a layout of the other axes cannot say.
static bool canPermuteBuffer(ArrayRef<int64_t> shape) {
  return llvm::count_if(shape, [](int64_t extent) { return !llvm::isPowerOf2_64(extent); }) < 2;
}

OperandOrigin originOfOperand(Value operand) {
  OperandOrigin origin{operand, {}};
  const auto type = dyn_cast<RankedTensorType>(operand.getType());
  for (int64_t axis = 0; type && axis < type.getRank(); ++axis)
    origin.order.push_back(axis);
  for (;;) {
    if (auto convert = origin.root.getDefiningOp<cta::ConvertLayoutOp>()) {
      origin.root = convert.getSource();
    } else if (auto permute = origin.root.getDefiningOp<tile::PermuteOp>();
               permute && canPermuteBuffer(permute.getType().getShape())) {
      for (int32_t &axis : origin.order)
        axis = permute.getOrder()[axis];
      origin.root = permute.getSource();
    } else {
      return origin;
    }
  }
}

cta::AlongKOp alongKOf(Value operand) {
  Operation *op = operand.getDefiningOp();
  while (isa_and_nonnull<tile::PermuteOp, tile::ReshapeOp, cta::ConvertLayoutOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return dyn_cast_or_null<cta::AlongKOp>(op);
}

/// Which elements of an operand each thread reads, in the operand's axes.
static Layout readerLayout(cta::DotOp dot, unsigned number) {
  const Layout &sums = *cta::layoutOf(dot.getType());
  if (dot.getInstruction())
    return dotOperandLayout(dot, sums, number);
  auto type = cast<RankedTensorType>(dot->getOperand(number).getType());
  return multiplyAddOperandLayout(sums, type.getShape(), number);
}

void SharedTile::addUse(cta::DotOp dot, unsigned number, ArrayRef<int32_t> order,
                        const Target &target) {
  uses.push_back({&dot->getOpOperand(number), SmallVector<int32_t, 2>(order)});
  const MmaInstruction *instruction = instructionOf(dot, target);
  if (instruction && instruction->home(number) != OperandHome::Registers) {
    byDescriptor = true;
    if (instruction->onlyAlongK)
      along = order[1 - number];
    return;
  }
  const SmallVector<int64_t> axes(order);
  readers.push_back(readerLayout(dot, number).permute(invertPermutationVector(axes)));
}

SmallVector<Operation *> otherUsersOf(Value tile, ArrayRef<BufferUse> uses) {
  SmallVector<Operation *> others;
  for (OpOperand &use : tile.getUses()) {
    Operation *user = use.getOwner();
    const bool hands = isa<cta::ConvertLayoutOp, tile::PermuteOp, tile::ReshapeOp>(user)
                           ? otherUsersOf(user->getResult(0), uses).empty()
                           : llvm::any_of(uses, [&](auto &each) { return each.operand == &use; });
    if (!hands)
      others.push_back(user);
  }
  return others;
}

} // namespace sectile
