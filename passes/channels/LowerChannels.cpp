// Turns channels into slots of their rings. Where asynchronous copies fill them, commit closes a
// group and wait leaves those groups in flight that were closed after its own. Where registers fill
// them, these two need nothing. Acquire and release need something only between partitions, where
// consumers arrive at the empty mbarrier that the producer waits for. Elsewhere insert-barriers
// keeps the producer from overtaking. Loops count positions in rings from here on, in place of
// uses, so that no thread divides for a slot and its parity.
#include "passes/DeadCode.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/analysis/Warps.h"
#include "passes/channels/ChannelUses.h"
#include "passes/loops/CarriedValues.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace sectile {
#define GEN_PASS_DEF_LOWERCHANNELS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

struct LowerChannels : sectile::impl::LowerChannelsBase<LowerChannels> {
  void runOnOperation() override {
    FailureOr<ChannelUses> found = ChannelUses::of(getOperation());
    if (failed(found))
      return signalPassFailure();
    const ChannelUses &uses = *found;
    drain(uses);
    numbers.clear();
    countOn(uses);
    countPositions();
    makeMbarriers(uses);
    drainMasked(uses);
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (isa<cta::AcquireOp, cta::CommitOp, cta::WaitOp, cta::ReleaseOp>(op))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      OpBuilder builder(op);
      if (auto release = dyn_cast<cta::ReleaseOp>(op))
        signalEmpty(builder, release);
      if (auto acquire = dyn_cast<cta::AcquireOp>(op)) {
        if (Value made = filledByWarps.lookup(acquire.getChannel()))
          waitForPhase(builder, op->getLoc(), emptied.lookup(made), acquire.getSlot(),
                       /*before=*/true);
        acquire.replaceAllUsesWith(
            slotOf(builder, op->getLoc(), acquire.getChannel(), acquire.getSlot()));
      }
      if (auto commit = dyn_cast<cta::CommitOp>(op);
          commit && filledByWarps.contains(commit.getChannels()[0])) {
        // What they stored is for dots, too, which read it through the proxy.
        cta::ProxyFenceOp::create(builder, op->getLoc());
        arrive(builder, op->getLoc(), commit.getChannels(), commit.getSlot(),
               mbarriers.lookup(commit.getChannels()[0]), /*written=*/true);
      }
      if (auto commit = dyn_cast<cta::CommitOp>(op);
          commit && uses.isAsynchronous(commit.getChannels()))
        cta::AsyncCommitOp::create(builder, op->getLoc());
      if (auto wait = dyn_cast<cta::WaitOp>(op)) {
        if (mbarriers.contains(wait.getChannels()[0]))
          waitForFilled(builder, wait);
        if (uses.isAsynchronous(wait.getChannels()))
          cta::AsyncWaitOp::create(builder, op->getLoc(), uses.groupsAfter(wait));
        for (auto [channel, buffer] : llvm::zip(wait.getChannels(), wait.getBuffers()))
          buffer.replaceAllUsesWith(slotOf(builder, op->getLoc(), channel, wait.getSlot()));
      }
      op->erase();
    }
    eraseDeadCode(getOperation());
  }

  static bool isByHand(Value channel) {
    auto made = channel.getDefiningOp<cta::ChannelOp>();
    return made && made.getByHand();
  }

  // The phases of mbarriers go on for the kernel's life. Where the loop that fills a channel is run
  // many times, its uses are numbered from where the run before ended.
  void countOn(const ChannelUses &uses) {
    SmallVector<cta::WaitOp> waits;
    getOperation().walk([&](cta::WaitOp wait) {
      // Those of channels by hand are numbered for the kernel's life already.
      if (uses.isByEngine(wait.getChannels()) && !isByHand(wait.getChannels().front()))
        waits.push_back(wait);
    });
    DenseSet<Value> done; // where the uses of a loop begin
    for (cta::WaitOp wait : waits) {
      auto loop = dyn_cast<scf::ForOp>(wait->getParentOp());
      if (!loop || !isa<scf::ForOp>(loop->getParentOp()))
        continue;
      Value begin = loop.getTiedLoopInit(cast<BlockArgument>(wait.getSlot()))->get();
      if (begin.getDefiningOp<scf::ForOp>()) // it goes on with another loop's ring
        continue;
      if (!done.contains(begin))
        done.insert(begin = carryOn(loop, cast<BlockArgument>(wait.getSlot())));
      for (Value channel : wait.getChannels())
        shiftAhead(loop, channel, begin);
    }
  }

  /// Has the loops around one carry the number of its uses on. Gives the number at its beginning.
  Value carryOn(scf::ForOp loop, BlockArgument use) {
    const unsigned number = use.getArgNumber() - loop.getNumInductionVars();
    Value end = loop.getResult(number);
    // Loops that follow may go on with the ring.
    for (bool found = true; found;) {
      found = false;
      for (OpOperand &next : end.getUses())
        if (auto later = dyn_cast<scf::ForOp>(next.getOwner())) {
          end = later.getTiedLoopResult(&next);
          found = true;
          break;
        }
    }
    const Value begin =
        carryThroughLoops(loop, Builder(&getContext()).getI32IntegerAttr(0), end).before;
    loop.getInitArgsMutable()[number].assign(begin);
    return begin;
  }

  /// Numbers the uses of a channel that are issued ahead of its loop from `begin`.
  void shiftAhead(scf::ForOp loop, Value channel, Value begin) {
    SmallVector<Operation *> ahead;
    for (Operation *user : channel.getUsers())
      if (user->getBlock() == loop->getBlock())
        ahead.push_back(user);
    for (Operation *user : ahead) {
      OpBuilder builder(user);
      auto shifted = [&](Value use) {
        Value &number = numbers[{begin, use}];
        if (!number) {
          builder.setInsertionPointToStart(loop->getBlock());
          number = arith::AddIOp::create(
              builder, user->getLoc(), begin,
              arith::ConstantIntOp::create(builder, user->getLoc(), *constantInt(use), 32));
        }
        return number;
      };
      if (auto acquire = dyn_cast<cta::AcquireOp>(user))
        acquire.getSlotMutable().assign(shifted(acquire.getSlot()));
      if (auto commit = dyn_cast<cta::CommitOp>(user);
          commit && commit.getChannels().front() == channel)
        commit.getSlotMutable().assign(shifted(commit.getSlot()));
    }
  }
  DenseMap<std::pair<Value, Value>, Value> numbers; ///< of uses ahead of a loop

  /// Has loops count positions in rings, in place of uses.
  void countPositions() {
    counted.clear();
    positions.clear();
    getOperation().walk([&](Operation *op) {
      if (auto acquire = dyn_cast<cta::AcquireOp>(op))
        acquire.getSlotMutable().assign(positionOf(acquire.getChannel(), acquire.getSlot()));
      else
        llvm::TypeSwitch<Operation *>(op).Case<cta::CommitOp, cta::WaitOp, cta::ReleaseOp>(
            [&](auto use) {
              use.getSlotMutable().assign(positionOf(use.getChannels().front(), use.getSlot()));
            });
    });
  }

  Value positionOf(Value channel, Value use) {
    const unsigned depth = cast<cta::ChannelType>(channel.getType()).getDepth();
    OpBuilder builder(&getContext());
    builder.setInsertionPointAfterValue(use);
    if (Value known = positions.lookup({use, depth}))
      return known;
    if (auto constant = constantInt(use))
      return positions[{use, depth}] = arith::ConstantIntOp::create(
                 builder, use.getLoc(), cta::positionOf(*constant, depth), 32);
    if (auto sum = use.getDefiningOp<arith::AddIOp>()) {
      const int64_t by = *constantInt(sum.getRhs()) % (2 * depth);
      Value base = positionOf(channel, sum.getLhs());
      return positions[{use, depth}] =
                 by ? ringAdvance(builder, use.getLoc(), base, by, depth) : base;
    }
    auto argument = dyn_cast<BlockArgument>(use);
    auto loop = argument ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp())
                         : use.getDefiningOp<scf::ForOp>();
    if (!loop) // it is a position already
      return use;
    const unsigned number = argument ? argument.getArgNumber() - loop.getNumInductionVars()
                                     : cast<OpResult>(use).getResultNumber();
    const auto [known, isNew] = counted.try_emplace(loop.getRegionIterArg(number), depth);
    if (!isNew) {
      if (known->second != depth) {
        channelError(loop) << "counts the uses of rings of different depths by one number";
        signalPassFailure();
      }
      return use;
    }
    OpOperand &first = loop.getInitArgsMutable()[number];
    first.set(positionOf(channel, first.get()));
    OpOperand &next = loop.getBody()->getTerminator()->getOpOperand(number);
    next.set(positionOf(channel, next.get()));
    return use;
  }
  DenseMap<std::pair<Value, unsigned>, Value> positions; ///< of uses, by the depth of the ring
  DenseMap<Value, unsigned> counted; ///< what loops count positions by, and in how many slots

  // What the engine fills together is waited for together: one mbarrier for the buffers of a use,
  // which the copies of that use signal. Where all warps of a partition fill a slot, each of them
  // arrives there as well.
  void makeMbarriers(const ChannelUses &uses) {
    mbarriers.clear();
    freed.clear();
    emptied.clear();
    filledTogether.clear();
    filledByWarps.clear();
    DenseMap<Value, int64_t> bytes; // of a use, by its mbarriers
    getOperation().walk([&](cta::CommitOp commit) {
      const bool byEngine = uses.isByEngine(commit.getChannels());
      auto filling = dyn_cast_if_present<cta::PartitionOp>(partitionOf(commit));
      const bool byWarps = filling && filling.getComputes();
      if ((!byEngine && !byWarps) || mbarriers.contains(commit.getChannels()[0]))
        return;
      cta::ChannelOp last;
      int64_t together = 0;
      for (Value channel : commit.getChannels()) {
        auto op = channel.getDefiningOp<cta::ChannelOp>();
        if (uses.isByEngine(channel))
          together += op.getType().getBuffer().getBytes();
        if (!last || last->isBeforeInBlock(op))
          last = op;
      }
      OpBuilder builder(&getContext());
      const bool isOfCluster = llvm::any_of(commit.getChannels(), isShared);
      Operation *top = getOperation().getBody().findAncestorOpInRegion(*last);
      // The cluster's other block writes to them whatever this one is doing.
      if (isOfCluster && top != last) {
        for (Value channel : commit.getChannels())
          channel.getDefiningOp()->moveBefore(top);
        top = last;
      }
      if (top == last)
        builder.setInsertionPointAfter(last);
      else
        builder.setInsertionPoint(top);
      auto make = [&](unsigned arrivals) -> Value {
        return cta::MbarriersOp::create(
            builder, commit.getLoc(),
            cta::MbarriersType::get(&getContext(), last.getType().getDepth()), IntegerAttr(),
            arrivals, /*by_hand=*/false);
      };
      Value made = make(byEngine + (byWarps ? warpsOf(commit) : 0));
      if (last.getBetweenWarps())
        emptied[made] = make(warpsThatRead(commit.getChannels()[0]));
      if (byWarps)
        filledByWarps[commit.getChannels()[0]] = made;
      if (isOfCluster) {
        freed[made] = make(1);
        filledTogether[made].assign(commit.getChannels().begin(), commit.getChannels().end());
        cta::ClusterBarrierOp::create(builder, commit.getLoc(), commit.getChannels());
      } else {
        cta::BarrierOp::create(builder, commit.getLoc());
      }
      bytes[made] = together;
      for (Value channel : commit.getChannels())
        mbarriers[channel] = made;
    });
    DenseSet<std::pair<Value, Value>> begun;
    getOperation().walk([&](cta::TensorCopyBlockOp copy) {
      auto acquire = copy.getBuffer().getDefiningOp<cta::AcquireOp>();
      if (!acquire) {
        copy.emitOpError("fills a buffer of no channel, so that nobody can wait for it");
        return signalPassFailure();
      }
      Value signalled = mbarriers.lookup(acquire.getChannel());
      if (!signalled) {
        copy.emitOpError("fills a channel that is never committed, so that nobody can wait for it");
        return signalPassFailure();
      }
      OpBuilder builder(copy);
      copy.getBarriersMutable().assign(signalled);
      copy.getIndexMutable().assign(ringSlot(builder, copy.getLoc(), acquire.getSlot(),
                                             acquire.getChannel().getType().getDepth()));
      if (begun.insert({signalled, acquire.getSlot()}).second) {
        copy.setExpects(bytes.lookup(signalled));
        // The own block's readers first: for them the block says so to the other one.
        if (Value empty = emptied.lookup(signalled);
            empty &&
            llvm::none_of(filledByWarps, [&](auto &filled) { return filled.second == signalled; }))
          waitForPhase(builder, copy.getLoc(), empty, acquire.getSlot(), /*before=*/true);
        if (freed.contains(signalled))
          acquireInCluster(copy, acquire.getSlot());
      }
    });
  }

  /// How many warps the partitions that read a channel have, the main one included.
  unsigned warpsThatRead(Value channel) {
    DenseSet<Operation *> partitions;
    unsigned warps = 0;
    for (Operation *user : channel.getUsers())
      if (isa<cta::WaitOp, cta::ReleaseOp>(user) && partitions.insert(partitionOf(user)).second)
        warps += warpsOf(user);
    return warps ? warps : warpsOf(getOperation());
  }

  /// Whether some copy into a channel is one that both blocks of a cluster do.
  static bool isShared(Value channel) {
    return llvm::any_of(channel.getUsers(), [](Operation *user) {
      return isa<cta::AcquireOp>(user) && llvm::any_of(user->getUsers(), [](Operation *copy) {
               auto byEngine = dyn_cast<cta::TensorCopyBlockOp>(copy);
               return byEngine && byEngine.getShared();
             });
    });
  }

  /// Before the first copy of a use: what the other block copies, too, it copies into both.
  void acquireInCluster(cta::TensorCopyBlockOp copy, Value use) {
    OpBuilder builder(copy);
    const Location loc = copy.getLoc();
    Value signalled = copy.getBarriers();
    const unsigned depth = cast<cta::MbarriersType>(signalled.getType()).getCount();
    SmallVector<Value> buffers;
    for (Value channel : filledTogether.lookup(signalled))
      buffers.push_back(slotOf(builder, loc, channel, use));
    cta::ClusterAcquireOp::create(
        builder, loc, buffers, freed.lookup(signalled), ringSlot(builder, loc, use, depth),
        ringParity(builder, loc, use, depth, /*before=*/false), copy.getWhen());
  }

  void waitForFilled(OpBuilder &builder, cta::WaitOp wait) {
    waitForPhase(builder, wait.getLoc(), mbarriers.lookup(wait.getChannels()[0]), wait.getSlot(),
                 /*before=*/false);
  }

  // Each phase of an mbarrier is one use of its slot. Waits for that of a use, or of the one a
  // round `before` it. Before a slot's first use that is the phase before the first, which counts
  // as over.
  void waitForPhase(OpBuilder &builder, Location loc, Value barriers, Value use, bool before) {
    const unsigned depth = cast<cta::MbarriersType>(barriers.getType()).getCount();
    cta::MbarrierWaitOp::create(builder, loc, barriers, ringSlot(builder, loc, use, depth),
                                ringParity(builder, loc, use, depth, before));
  }

  // Signals the producer that this slot is free: arrives at its empty mbarrier.
  void signalEmpty(OpBuilder &builder, cta::ReleaseOp release) {
    Value empty = emptied.lookup(mbarriers.lookup(release.getChannels().front()));
    if (!empty)
      return;
    const Location loc = release.getLoc();
    Value use = release.getSlot(), when;
    if (release.getPrevious()) {
      when = hasPrevious(builder, release);
      const unsigned depth = cast<cta::MbarriersType>(empty.getType()).getCount();
      use = ringAdvance(builder, loc, use, 2 * depth - 1, depth);
    }
    arrive(builder, loc, release.getChannels(), use, empty, /*written=*/false, when);
  }

  /// Whether there is a use to release: in a loop's iterations but the first, and after a loop
  /// that had any.
  static Value hasPrevious(OpBuilder &builder, cta::ReleaseOp release) {
    const Value count = linearCount(release.getSlot())->base;
    const Location loc = release.getLoc();
    if (auto loop = count.getDefiningOp<scf::ForOp>())
      return arith::CmpIOp::create(builder, loc,
                                   loop.getUnsignedCmp() ? arith::CmpIPredicate::ult
                                                         : arith::CmpIPredicate::slt,
                                   loop.getLowerBound(), loop.getUpperBound());
    auto loop = cast<scf::ForOp>(cast<BlockArgument>(count).getOwner()->getParentOp());
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, loop.getInductionVar(),
                                 loop.getLowerBound());
  }

  static void arrive(OpBuilder &builder, Location loc, ValueRange channels, Value use,
                     Value barriers, bool written, Value when = {}) {
    SmallVector<Value> buffers;
    for (Value channel : channels)
      buffers.push_back(slotOf(builder, loc, channel, use));
    const unsigned depth = cast<cta::MbarriersType>(barriers.getType()).getCount();
    cta::MbarrierArriveOp::create(builder, loc, buffers, barriers,
                                  ringSlot(builder, loc, use, depth), when, written);
  }

  // Copies that nobody waits for may not outlive the ring's place: waits for all of them after the
  // last use of each channel.
  void drain(const ChannelUses &uses) {
    DenseSet<Operation *> done;
    getOperation().walk([&](cta::ChannelOp channel) {
      if (!uses.isAsynchronous(channel->getResults()))
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

  // Zeros in place of what a condition keeps from being copied are written whether or not somebody
  // waits for them. The producer waits for the uses that it leaves.
  void drainMasked(const ChannelUses &uses) {
    DenseSet<Value> done; // by the mbarriers
    getOperation().walk([&](cta::ChannelOp channel) {
      Value made = mbarriers.lookup(channel);
      std::optional<ChannelUses::Numbered> left = uses.leftBehind(channel);
      const bool isMasked =
          made && llvm::any_of(mbarriers, [&](auto &entry) {
            return entry.second == made && entry.first.getDefiningOp()->hasAttr(cta::maskedAttr);
          });
      if (!isMasked || !left || !done.insert(made).second)
        return;
      Operation *last = channel;
      for (Operation *user : channel->getUsers()) {
        if (isa<cta::CommitOp>(user) && partitionOf(user)) {
          last = &cast<cta::PartitionOp>(partitionOf(user)).getBody().front().back();
          break;
        }
        Operation *ancestor = channel->getBlock()->findAncestorOpInBlock(*user);
        if (last->isBeforeInBlock(ancestor))
          last = ancestor;
      }
      OpBuilder builder(&getContext());
      builder.setInsertionPointAfter(last);
      const Location loc = channel.getLoc();
      const unsigned depth = channel.getType().getDepth();
      for (unsigned i = 0; i < left->count; ++i) {
        const int64_t after = (left->offset + i) % (2 * depth);
        Value use = left->base;
        if (!use)
          use = arith::ConstantIntOp::create(builder, loc, cta::positionOf(after, depth), 32);
        else if (after)
          use = ringAdvance(builder, loc, use, after, depth);
        waitForPhase(builder, channel.getLoc(), made, use, /*before=*/false);
      }
    });
  }

  DenseMap<Value, Value> mbarriers; ///< by the channel
  // Of those that both blocks of a cluster fill, by their mbarriers: where the other block signals
  // that slots are free, and the channels.
  DenseMap<Value, Value> freed;
  DenseMap<Value, Value> emptied; ///< of those that another partition fills, by its mbarriers
  DenseMap<Value, SmallVector<Value>> filledTogether;
  /// Of those that all warps of a partition fill, by the first of the channels filled together.
  llvm::MapVector<Value, Value> filledByWarps;

  static Value slotOf(OpBuilder &builder, Location loc, Value channel, Value use) {
    auto type = cast<cta::ChannelType>(channel.getType());
    Value index = ringSlot(builder, loc, use, type.getDepth());
    return cta::SlotOp::create(builder, loc, type.getBuffer(), channel, index);
  }
};

} // namespace
