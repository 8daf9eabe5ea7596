// Has loops do work for other iterations: plans one loop after another, and rewrites each by its
// plan.
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"
#include "passes/DeadCode.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/Clusters.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/checks/Check.h"
#include "passes/loops/LoopHints.h"
#include "passes/loops/LoopPlan.h"
#include "passes/loops/OverlapDots.h"

namespace sectile {
#define GEN_PASS_DEF_SCHEDULELOOPS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

void report(const Remarks &remarks) {
  for (const auto &[at, text] : remarks)
    at->emitRemark(text);
}

struct ScheduleLoops : sectile::impl::ScheduleLoopsBase<ScheduleLoops> {
  void runOnOperation() override {
    FailureOr<Target> found = targetOf(getOperation());
    if (failed(found) || failed(checkLayouts(getOperation(), *found)))
      return signalPassFailure();
    target = *found;
    if (getOperation()->hasAttr(cta::asWrittenAttr))
      return leaveCluster();
    llvm::for_each(allIn<scf::ForOp>(getOperation()), [&](scf::ForOp loop) { scheduleDots(loop); });
    eraseDeadCode(getOperation());
    getOperation().walk([](LoopLikeOpInterface loop) { moveLoopInvariantCode(loop); });
    sayWhatStays();
    fetchLoads();
    leaveCluster();
    eraseDeadCode(getOperation());
  }

  void scheduleDots(scf::ForOp loop) {
    const DotSchedule dots = planDots(loop, stagesOf(loop), target);
    report(dots.remarks);
    for (StringRef hint : dots.hints)
      loop->removeAttr(hint);
    if (dots.promotion)
      delayPromotion(loop, *dots.promotion);
    if (dots.delayed)
      delayDot(loop, *dots.delayed);
  }

  /// Plans are of loads in the bodies of loops with a count.
  void sayWhatStays() {
    if (stagesOf(getOperation()) < 2)
      return;
    for (const auto &[root, tile] : tilesForDots(getOperation(), target)) {
      Operation *load = loadOf(root);
      if (!load || isa<scf::ForOp>(load->getParentOp()) ||
          load->getParentOfType<cta::PartitionOp>())
        continue;
      auto around = load->getParentOfType<LoopLikeOpInterface>();
      if (isa_and_nonnull<scf::ForOp>(around.getOperation()))
        sayWhyInBranch(load, around);
      else if (around)
        load->emitRemark("this load goes through registers to shared memory, not ahead of its "
                         "loop: that goes on by a condition, not over a range");
    }
  }

  void sayWhyInBranch(Operation *load, LoopLikeOpInterface loop) {
    AddressAnalysis addresses(getOperation());
    const Producer producer = target.asyncCopy ? Producer::Copies : Producer::Registers;
    const std::string why =
        whyNotAhead(cast<scf::ForOp>(loop.getOperation()), load, producer, addresses);
    load->emitRemark("this load goes through registers to shared memory, not ahead of its loop: it "
                     "is in a branch")
        << (why.empty() ? "" : ", and ") << why;
  }

  void fetchLoads() {
    std::optional<ContiguityAnalysis> contiguity;
    SharedTiles tiles;
    SmallVector<Ring> rings;
    for (scf::ForOp loop : allIn<scf::ForOp>(getOperation())) {
      if (loop->getParentOfType<cta::PartitionOp>()) // fills its channels itself
        continue;
      const unsigned stages = stagesOf(loop);
      if (stages < 2)
        continue;
      if (!contiguity) {
        contiguity.emplace(getOperation());
        tiles = tilesForDots(getOperation(), target);
      }
      LoopPlan plan = planLoop(loop, stages, tiles, rings, *contiguity, target);
      moveBack(plan);
      if (apply(plan, rings, *contiguity))
        contiguity.reset(); // the loop's results are other values
    }
  }

  /// What is not made ahead is made where its branch is taken only.
  void moveBack(LoopPlan &plan) {
    for (Operation *load : allIn<Operation *>(plan.loop)) {
      if (load->getBlock() != plan.loop.getBody() || !load->hasAttr(ofBranchAttr) ||
          llvm::any_of(plan.loads, [&](const FetchedLoad &each) { return each.load == load; }))
        continue;
      load->removeAttr(ofBranchAttr);
      if (!llvm::is_contained(plan.carried, load))
        moveIntoBranches(load);
    }
  }

  /// Whether it replaces the loop.
  bool apply(LoopPlan &plan, SmallVector<Ring> &rings, const ContiguityAnalysis &contiguity) {
    report(plan.remarks);
    for (StringRef hint : plan.hints)
      plan.loop->removeAttr(hint);
    OpBuilder builder(plan.loop);
    for (cta::DotOp dot : plan.inFlight)
      dot->setAttr(inFlightAttr, builder.getUnitAttr());
    if (plan.loads.empty()) {
      if (!plan.carried.empty())
        loadAhead(plan.loop, plan.carried);
      return !plan.carried.empty();
    }
    if (plan.takesTurns)
      plan.loop->setAttr(takesTurnsAttr, builder.getUnitAttr());
    for (FetchedLoad &load : plan.loads) {
      if (!plan.byEngine)
        continue;
      auto block = cast<tile::LoadBlockOp>(load.load);
      load.tensor = makeTensorBlock(builder, *blockOf(block), contiguity);
      load.isShared =
          !load.hasLines() && isSharedInCluster(block, block, *load.tensor, load.buffer, target);
    }
    const SmallVector<Ring> made = fetchAhead(plan);
    if (!plan.carried.empty())
      loadAhead(cast<scf::ForOp>(plan.carried.front()->getParentOp()), plan.carried);
    if (plan.continued)
      rings.erase(plan.continued);
    if (plan.producer == Producer::Partition)
      llvm::append_range(rings, made);
    return true;
  }

  /// Blocks that share nothing need not run side by side. A cluster meets before it shares a ring,
  /// and waits then for all threads that still run: for those, too, that make copies for a loop
  /// after this one, and wait until it has read some. So where a producer partition makes copies,
  /// only rings that these fill are shared.
  void leaveCluster() {
    if (clusterOf(getOperation()) == 1)
      return;
    const bool hasProducer =
        anyIn(getOperation(), [](cta::ChannelOp channel) { return channel.getBetweenWarps(); });
    bool shares = false;
    getOperation().walk([&](cta::TensorCopyBlockOp copy) {
      if (copy.getShared() && hasProducer && !isFilledByProducer(copy.getBuffer())) {
        copy.setShared(false);
        copy.emitRemark("the programs of a cluster do not share this copy: a producer partition "
                        "makes those of another loop");
      }
      shares |= copy.getShared();
    });
    if (shares)
      return;
    getOperation()->removeAttr(tile::clusterAttr);
    getOperation().emitRemark("this kernel has no clusters: ")
        << (mayAwaitPrograms(getOperation())
                ? "its programs may wait for each other"
                : "no load of a loop is one that both programs have the copy engine make");
  }

  Target target;
};

} // namespace
