// Brings the operands of dots through shared memory: a tile that a dot needs in another layout than
// its own becomes a buffer, which the dot reads piece by piece; a load of a loop that goes there
// becomes a channel, filled by asynchronous copies or from registers.
#include "ir/MmaElements.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"
#include "passes/DeadCode.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/Clusters.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/checks/Check.h"
#include "passes/loops/EngineStores.h"
#include "passes/loops/LoopPlan.h"

namespace sectile {
#define GEN_PASS_DEF_STAGEOPERANDS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

/// 32-bit registers up to which a fragment that a loop does not change is kept in registers.
constexpr unsigned maxInvariantRegisters = 32;

RankedTensorType tileType(Value value) { return cast<RankedTensorType>(value.getType()); }

struct StageOperands : sectile::impl::StageOperandsBase<StageOperands> {
  void runOnOperation() override {
    FailureOr<Target> found = targetOf(getOperation());
    if (failed(found) || failed(checkLayouts(getOperation(), *found)))
      return signalPassFailure();
    target = *found;
    tiles.clear();
    getOperation().walk([](LoopLikeOpInterface loop) { moveLoopInvariantCode(loop); });
    collect();
    fetchLoops();
    for (auto &[root, tile] : tiles)
      allocate(root, tile);
    if (target.tensorCopy)
      EngineStores(getOperation(), target).run();
    leaveCluster();
    eraseDeadCode(getOperation());
  }

  /// Blocks that share nothing need not run side by side. A cluster meets before it shares a ring,
  /// and waits then for all threads that still run: for those, too, that make copies for a loop
  /// behind this one, and wait until it has read some. So where warps of their own make copies,
  /// only rings that these fill are shared.
  void leaveCluster() {
    if (clusterOf(getOperation()) == 1)
      return;
    SmallVector<cta::TensorCopyBlockOp> shared;
    getOperation().walk([&](cta::TensorCopyBlockOp copy) {
      if (copy.getShared())
        shared.push_back(copy);
    });
    if (anyIn(getOperation(), [](cta::ChannelOp channel) { return channel.getBetweenWarps(); }))
      llvm::erase_if(shared, [](cta::TensorCopyBlockOp copy) {
        if (isFilledByProducer(copy.getBuffer()))
          return false;
        copy.setShared(false);
        copy.emitRemark("the programs of a cluster do not share this copy: warps of their own "
                        "make those of another loop");
        return true;
      });
    if (!shared.empty())
      return;
    getOperation()->removeAttr(tile::clusterAttr);
    getOperation().emitRemark("this kernel has no clusters: ")
        << (mayAwaitPrograms(getOperation())
                ? "its programs may wait for each other"
                : "no load of a loop is one that both programs have the copy engine make");
  }

  void collect() {
    getOperation().walk([&](cta::DotOp dot) {
      for (unsigned i = 0; i < 2; ++i) {
        OpOperand &operand = dot->getOpOperand(i);
        if (!isa<RankedTensorType>(operand.get().getType()))
          continue;
        auto [root, order] = originOfOperand(operand.get());
        if (goesThroughShared(dot, operand, root, order))
          tiles[root].addUse(dot, i, order, target);
      }
    });
  }

  bool goesThroughShared(cta::DotOp dot, OpOperand &operand, Value root, ArrayRef<int32_t> order) {
    const unsigned number = operand.getOperandNumber();
    const MmaInstruction *instruction = instructionOf(dot, target);
    if (!instruction || instruction->home(number) == OperandHome::Shared)
      return true;
    // The engine may fetch a block's lines, whatever becomes of them in registers.
    if (instruction->home(number) == OperandHome::Either && target.tensorCopy &&
        blockOfLines(root) && loadOf(root))
      return true;
    const Layout &wanted = *cta::layoutOf(operand.get().getType());
    unsigned bits = cta::elementBits(root.getType());
    const SmallVector<int64_t> axes(order.begin(), order.end());
    if (planConversion(cta::layoutOf(root.getType())->permute(axes), wanted, bits,
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

  void fetchLoops() {
    std::optional<ContiguityAnalysis> contiguity;
    SmallVector<Ring> rings;
    for (scf::ForOp loop : allIn<scf::ForOp>(getOperation())) {
      if (loop->getParentOfType<cta::PartitionOp>()) // fills its channels itself
        continue;
      auto own = loop->getAttrOfType<IntegerAttr>(cta::stagesAttr);
      const unsigned stages = own ? own.getInt() : stagesOf(getOperation());
      if (stages < 2)
        continue;
      if (!contiguity)
        contiguity.emplace(getOperation());
      LoopPlan plan = planLoop(loop, stages, tiles, rings, *contiguity, target);
      if (apply(plan, rings, *contiguity))
        contiguity.reset(); // the loop's results are other values
    }
  }

  /// Whether it replaces the loop.
  bool apply(LoopPlan &plan, SmallVector<Ring> &rings, const ContiguityAnalysis &contiguity) {
    for (auto &[at, text] : plan.remarks)
      at->emitRemark(text);
    for (StringRef hint : plan.hints)
      plan.loop->removeAttr(hint);
    if (plan.loads.empty())
      return false;
    OpBuilder builder(plan.loop);
    for (FetchedLoad &load : plan.loads) {
      tiles.erase(load.tile);
      if (!plan.byEngine)
        continue;
      auto block = cast<tile::LoadBlockOp>(load.load);
      load.tensor = makeTensorBlock(builder, *blockOf(block), contiguity);
      load.isShared =
          !load.hasLines() && isSharedInCluster(block, block, *load.tensor, load.buffer, target);
    }
    FetchedLoop made = fetchAhead(plan);
    if (made.first)
      readAlike(made.first, plan.early);
    if (plan.continued)
      rings.erase(plan.continued);
    if (plan.producer == Producer::OtherWarps)
      llvm::append_range(rings, made.rings);
    findRoots();
    return true;
  }

  /// Has a dot read from shared memory what another one does, as far as that is still a tile.
  void readAlike(cta::DotOp dot, cta::DotOp other) {
    for (auto &[root, tile] : tiles)
      for (unsigned i = 0; i < 2; ++i)
        if (auto use = llvm::find_if(
                tile.uses,
                [&](const BufferUse &b) { return b.operand == &other->getOpOperand(i); });
            use != tile.uses.end()) {
          const SmallVector<int32_t, 2> order = use->order;
          tile.uses.push_back({&dot->getOpOperand(i), order});
        }
  }

  /// A loop that was given more to carry is another operation, and its results are other values.
  void findRoots() {
    SharedTiles found;
    for (auto &[root, tile] : tiles)
      found[originOfOperand(tile.uses.front().operand->get()).root] = std::move(tile);
    tiles = std::move(found);
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
    auto alloc = cta::AllocOp::create(
        builder, root.getLoc(), chooseBuffer(tileType(root), tile, target), root, IntegerAttr());
    for (const BufferUse &use : tile.uses)
      readBuffer(builder, use, alloc);
  }

  Target target;
  SharedTiles tiles;
};

} // namespace
