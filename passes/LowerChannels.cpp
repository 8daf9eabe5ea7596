// Turns channels into slots of their rings. Where asynchronous copies fill them, commit closes a
// group and wait counts the groups that may still be under way. Where registers do, these two need
// nothing. Acquire and release never do: insert-barriers keeps producers from overtaking readers.
#include "passes/DeadCode.h"
#include "passes/Passes.h"
#include "passes/analysis/SharedMemory.h"

namespace sectile {
#define GEN_PASS_DEF_LOWERCHANNELS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

struct LowerChannels : sectile::impl::LowerChannelsBase<LowerChannels> {
  void runOnOperation() override {
    asynchronous.clear();
    getOperation().walk([&](Operation *op) {
      for (const BufferAccess &access : bufferAccesses(op))
        if (access.kind == BufferAccess::AsyncWrite)
          asynchronous.insert(access.origin.owner);
    });
    drain();
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (isa<cta::AcquireOp, cta::CommitOp, cta::WaitOp, cta::ReleaseOp>(op))
        ops.push_back(op);
    });
    // Counts first: they look at the commits around.
    DenseMap<Operation *, unsigned> pending;
    for (Operation *op : ops)
      if (auto wait = dyn_cast<cta::WaitOp>(op))
        pending[op] = groupsAfter(wait);
    for (Operation *op : ops) {
      OpBuilder builder(op);
      if (auto acquire = dyn_cast<cta::AcquireOp>(op))
        acquire.replaceAllUsesWith(slotOf(builder, op, acquire.getChannel(), acquire.getSlot()));
      if (auto commit = dyn_cast<cta::CommitOp>(op); commit && isAsynchronous(commit.getChannels()))
        cta::AsyncCommitOp::create(builder, op->getLoc());
      if (auto wait = dyn_cast<cta::WaitOp>(op)) {
        if (isAsynchronous(wait.getChannels()))
          cta::AsyncWaitOp::create(builder, op->getLoc(), pending.lookup(op));
        for (auto [channel, buffer] : llvm::zip(wait.getChannels(), wait.getBuffers()))
          buffer.replaceAllUsesWith(slotOf(builder, op, channel, wait.getSlot()));
      }
      op->erase();
    }
    eraseDeadCode(getOperation());
  }

  // Copies that nobody waits for may not outlive the ring's place: waits for all of them after the
  // last use of each channel.
  void drain() {
    DenseSet<Operation *> done;
    getOperation().walk([&](cta::ChannelOp channel) {
      if (!asynchronous.contains(channel))
        return;
      Operation *last = channel;
      for (Operation *user : channel->getUsers()) {
        Operation *ancestor = channel->getBlock()->findAncestorOpInBlock(*user);
        if (last->isBeforeInBlock(ancestor))
          last = ancestor;
      }
      if (last == channel || !done.insert(last).second)
        return;
      OpBuilder builder(&getContext());
      builder.setInsertionPointAfter(last);
      cta::AsyncWaitOp::create(builder, channel.getLoc(), 0);
    });
  }

  bool isAsynchronous(ValueRange channels) const {
    return llvm::any_of(
        channels, [&](Value channel) { return asynchronous.contains(channel.getDefiningOp()); });
  }

  /// Groups that are closed between a use's commit and its wait. Where a loop commits several
  /// groups in a row, there is one of each for every use ahead, and those after the own one.
  /// Elsewhere the own ones are what is sure; waiting for more than needed is never wrong.
  static unsigned groupsAfter(cta::WaitOp wait) {
    unsigned commits = 0;
    std::optional<unsigned> own;
    bool waited = false, inRow = true;
    for (Operation &op : *wait->getBlock()) {
      waited |= commits > 0 && isa<cta::WaitOp>(op);
      if (auto commit = dyn_cast<cta::CommitOp>(op)) {
        inRow &= !waited;
        if (commit.getChannels() == wait.getChannels())
          own = commits;
        ++commits;
      }
    }
    unsigned ahead = wait.getAhead();
    return own && inRow ? ahead * commits + (commits - 1 - *own) : ahead;
  }

  static Value slotOf(OpBuilder &builder, Operation *op, Value channel, Value use) {
    auto type = cast<cta::ChannelType>(channel.getType());
    Value index = ringIndex(builder, op->getLoc(), use, type.getDepth());
    return cta::SlotOp::create(builder, op->getLoc(), type.getBuffer(), channel, index);
  }

  DenseSet<Operation *> asynchronous; ///< channels that copies fill
};

} // namespace
