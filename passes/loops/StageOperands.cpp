// Brings the operands of dots through shared memory: a tile that a dot needs in another layout than
// its own, and that no channel has, becomes a buffer, which the dot reads piece by piece.
#include "ir/MmaElements.h"
#include "ir/layout/Conversion.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "passes/DeadCode.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/checks/Check.h"
#include "passes/loops/EngineStores.h"
#include "passes/loops/LoopPlan.h"

namespace sectile {
#define GEN_PASS_DEF_STAGEOPERANDS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;

namespace sectile {

/// 32-bit registers up to which a fragment that a loop does not change is kept in registers.
static constexpr unsigned maxInvariantRegisters = 32;

static bool goesThroughShared(OpOperand &operand, const OperandOrigin &origin,
                              const Target &target) {
  auto dot = cast<cta::DotOp>(operand.getOwner());
  const unsigned number = operand.getOperandNumber();
  const MmaInstruction *instruction = instructionOf(dot, target);
  if (!instruction || instruction->home(number) == OperandHome::Shared)
    return true;
  // The engine may fetch a block's lines, whatever becomes of them in registers.
  if (instruction->home(number) == OperandHome::Either && target.tensorCopy &&
      blockOfLines(origin.root) && loadOf(origin.root))
    return true;
  const Layout &wanted = *cta::layoutOf(operand.get().getType());
  unsigned bits = cta::elementBits(origin.root.getType());
  const SmallVector<int64_t> axes(origin.order.begin(), origin.order.end());
  if (planConversion(cta::layoutOf(origin.root.getType())->permute(axes), wanted, bits,
                     {.banks = banksOf(target)})
          .kind != ConversionPlan::Kind::Scratch)
    return false;
  if (instruction->home(number) == OperandHome::Either)
    return true;
  // What a loop does not change is converted once, before the loop, when it is small.
  auto loop = dot->getParentOfType<LoopLikeOpInterface>();
  bool invariant = loop && loop.isDefinedOutsideOfLoop(operand.get());
  return !invariant || wanted.numRegisters() * bits > maxInvariantRegisters * 32;
}

SharedTiles tilesForDots(func::FuncOp kernel, const Target &target) {
  SharedTiles tiles;
  kernel.walk([&](cta::DotOp dot) {
    for (OpOperand &operand : dot->getOpOperands().take_front(2)) {
      if (!isa<RankedTensorType>(operand.get().getType()))
        continue;
      const OperandOrigin origin = originOfOperand(operand.get());
      if (goesThroughShared(operand, origin, target))
        tiles[origin.root].addUse(dot, operand.getOperandNumber(), origin.order, target);
    }
  });
  return tiles;
}

namespace {

struct StageOperands : sectile::impl::StageOperandsBase<StageOperands> {
  void runOnOperation() override {
    FailureOr<Target> found = targetOf(getOperation());
    if (failed(found) || failed(checkLayouts(getOperation(), *found)))
      return signalPassFailure();
    target = *found;
    for (auto &[root, tile] : tilesForDots(getOperation(), target))
      allocate(root, tile);
    if (target.tensorCopy) {
      EngineStores stores(getOperation(), target);
      stores.apply(stores.plan());
    }
    eraseDeadCode(getOperation());
  }

  // As late as possible, so that loads before it can be in flight together.
  void allocate(Value root, const SharedTile &tile) {
    Block *block = root.getParentBlock();
    Operation *first = nullptr;
    for (const BufferUse &use : tile.uses) {
      Operation *user = block->findAncestorOpInBlock(*use.operand->getOwner());
      if (!first || user->isBeforeInBlock(first))
        first = user;
    }
    OpBuilder builder(first);
    const auto type = cast<RankedTensorType>(root.getType());
    auto alloc = cta::AllocOp::create(builder, root.getLoc(), chooseBuffer(type, tile, target),
                                      root, IntegerAttr());
    for (const BufferUse &use : tile.uses)
      readBuffer(builder, use, alloc);
  }

  Target target;
};

} // namespace

} // namespace sectile
