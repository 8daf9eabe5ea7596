// Turns the channels, partitions and dots in flight that a kernel states itself into those of the
// `cta` dialect. What is copied to a slot goes by the copy engine where the target has one and all
// copies of the kernel allow it, else by asynchronous copies, else through registers.
#include "ir/MmaElements.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "passes/DeadCode.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/SinkTiles.h"
#include "passes/analysis/Addresses.h"
#include "passes/analysis/DotsInFlight.h"
#include "passes/analysis/ExplicitSlots.h"
#include "passes/analysis/MemoryOrder.h"
#include "passes/analysis/Registers.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/analysis/VectorLength.h"
#include "passes/analysis/Warps.h"
#include "passes/checks/Check.h"
#include "passes/layouts/DotOperands.h"
#include "passes/memory/TensorBlock.h"
#include "passes/partitions/PartitionWarps.h"
#include "llvm/ADT/MapVector.h"

namespace sectile {
#define GEN_PASS_DEF_EXPLICITCHANNELS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;

namespace sectile {

namespace {

/// Who carries what is copied to slots.
enum class Carrier { Engine, Copies, Registers };

/// One tile of a channel's slots, which dots may read in place.
struct SlotTile : SharedTile {
  SmallVector<tile::FillOp> fills;
  SmallVector<tile::ReadSlotOp> reads;
  cta::BufferType buffer;

  bool isStored() { return fills.front().getStored(); }
};

/// What a slot is filled with. A tile that layouts were assigned to may be converted on its way.
Value storedIn(tile::FillOp fill) {
  Value tile = fill.getTile();
  while (auto convert = tile.getDefiningOp<cta::ConvertLayoutOp>())
    tile = convert.getSource();
  return tile;
}
tile::LoadBlockOp blockIn(tile::FillOp fill) {
  return storedIn(fill).getDefiningOp<tile::LoadBlockOp>();
}

/// The read of a slot that an operand of a dot comes from; null where it comes from elsewhere.
tile::ReadSlotOp readBy(Value operand) {
  return originOfOperand(operand).root.getDefiningOp<tile::ReadSlotOp>();
}

struct ExplicitChannels : sectile::impl::ExplicitChannelsBase<ExplicitChannels> {
  void runOnOperation() override {
    channels.clear();
    getOperation().walk([&](tile::ChannelOp channel) {
      channels[channel].resize(channel.getType().getTiles().size());
    });
    FailureOr<Target> found = targetOf(getOperation());
    if (failed(found) || failed(takeTilesBack()) || failed(checkLayouts(getOperation(), *found)))
      return signalPassFailure();
    target = *found;
    if (failed(checkUses()) || failed(collect()) || failed(chooseCarrier()) ||
        failed(makePartitions()))
      return signalPassFailure();
    lowerMbarriers();
    if (failed(findDots()))
      return signalPassFailure();
    for (auto &[channel, tiles] : channels)
      lower(cast<tile::ChannelOp>(channel), tiles);
    if (failed(startDots()))
      return signalPassFailure();
    eraseDeadCode(getOperation());
  }

  /// Simplification moves constants out of partitions, where other numbers of warps have other
  /// layouts.
  LogicalResult takeTilesBack() {
    bool isParted = false;
    for (auto partition : getOperation().getBody().getOps<tile::PartitionOp>()) {
      isParted = true;
      if (failed(sinkTiles(partition.getBody())))
        return failure();
    }
    if (isParted)
      eraseDeadCode(getOperation());
    return success();
  }

  /// What the verifiers of single operations cannot see.
  LogicalResult checkUses() {
    return checkAll(getOperation(), [](Operation *op) -> LogicalResult {
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            if (isa<tile::ChannelType, tile::SlotType, tile::MbarriersType>(argument.getType()))
              return op->emitError("a loop or a branch cannot choose a channel or a slot: acquire "
                                   "it, or wait for it, where it is used");
      if (!isa<tile::AcquireOp, tile::CommitOp, tile::WaitOp, tile::ReleaseOp, tile::FillOp,
               tile::DotsWaitOp, tile::DotWaitOp, tile::NamedBarrierOp, tile::MbarrierArriveOp,
               tile::MbarrierWaitOp>(op))
        return success();
      for (Operation *around = op->getParentOp(); !isa<func::FuncOp>(around);
           around = around->getParentOp())
        if (!isa<scf::ForOp, tile::PartitionOp>(around))
          return op->emitError(
              "channels are used, barriers met at, and dots waited for, in loops over "
              "sc::range and outside of them, not in branches and loops without a "
              "count: every path has to leave as many uses in flight");
      return success();
    });
  }

  LogicalResult collect() {
    const LogicalResult slots = checkAll(getOperation(), [&](Operation *op) -> LogicalResult {
      if (auto fill = dyn_cast<tile::FillOp>(op)) {
        auto acquire = fill.getSlot().getDefiningOp<tile::AcquireOp>();
        if (!acquire || (!fill.getStored() && !blockIn(fill)))
          return op->emitError(acquire ? "a slot takes a block of a view"
                                       : "copies to a slot that was waited for: acquire one");
        if (acquire->getBlock() != op->getBlock())
          return op->emitError(
              "a slot is filled where it was acquired, not in a loop or outside of one");
        for (Operation *other : fill.getSlot().getUsers())
          if (isa<tile::FillOp>(other) && other->getBlock() == op->getBlock() &&
              other->isBeforeInBlock(op))
            return op->emitError("fills a tile of this slot again: each use of a slot takes each "
                                 "of its tiles once");
        tileOf(acquire.getChannel(), fill.getSlot()).fills.push_back(fill);
      } else if (auto read = dyn_cast<tile::ReadSlotOp>(op)) {
        auto wait = read.getSlot().getDefiningOp<tile::WaitOp>();
        if (!wait)
          return op->emitError("reads a slot that was acquired: what is copied to it is there "
                               "after a wait for the channel");
        tileOf(wait.getChannel(), read.getSlot()).reads.push_back(read);
      }
      return success();
    });
    if (failed(slots))
      return failure();
    for (auto &[channel, tiles] : channels)
      for (SlotTile &tile : tiles) {
        if (tile.fills.empty())
          return channel->emitError("nothing is copied to a tile of this channel's slots");
        for (tile::FillOp fill : tile.fills)
          if (fill.getStored() != tile.isStored())
            return fill.emitError("this tile of the channel's slots is copied in one place and "
                                  "stored in another");
      }
    getOperation().walk([&](cta::DotOp dot) {
      for (unsigned i = 0; i < 2; ++i) {
        const OperandOrigin origin = originOfOperand(dot->getOperand(i));
        if (auto read = origin.root.getDefiningOp<tile::ReadSlotOp>()) {
          auto wait = read.getSlot().getDefiningOp<tile::WaitOp>();
          tileOf(wait.getChannel(), read.getSlot()).addUse(dot, i, origin.order, target);
        }
      }
    });
    for (auto &[channel, tiles] : channels)
      for (SlotTile &tile : tiles)
        for (tile::ReadSlotOp read : tile.reads)
          if (!otherUsersOf(read, tile.uses).empty())
            tile.readers.push_back(*cta::layoutOf(read.getType()));
    return success();
  }

  SlotTile &tileOf(Value channel, Value slot) {
    return channels[channel.getDefiningOp()][cast<OpResult>(slot).getResultNumber()];
  }

  //===-- Who carries what is copied ------------------------------------------------===//

  LogicalResult chooseCarrier() {
    if (channels.empty())
      return success();
    ContiguityAnalysis contiguity(getOperation());
    AddressAnalysis addresses(getOperation());
    auto firstReason = [&](auto why) -> std::pair<Operation *, std::string> {
      for (auto &[channel, tiles] : channels)
        for (SlotTile &tile : tiles)
          for (tile::FillOp fill : tile.fills)
            if (std::string reason = fill.getStored() ? "" : why(fill, tile); !reason.empty())
              return {fill, reason};
      return {};
    };
    auto [byThreads, whyThreads] = firstReason([&](tile::FillOp fill, const SlotTile &tile) {
      return whyNotByEngine(fill, tile, contiguity, addresses);
    });
    carrier = Carrier::Engine;
    if (byThreads) {
      if (!getOperation().getBody().getOps<tile::PartitionOp>().empty())
        return byThreads->emitError("the copy engine makes the copies of a partition, where one "
                                    "thread is at work, and cannot make this one: ")
               << whyThreads;
      if (target.tensorCopy)
        byThreads->emitRemark("this copy is made by threads, not by the copy engine: ")
            << whyThreads;
      carrier = Carrier::Copies;
      auto [throughRegisters, whyRegisters] =
          firstReason([&](tile::FillOp fill, const SlotTile &tile) {
            return whyNotAsynchronous(fill, tile, contiguity);
          });
      if (throughRegisters) {
        throughRegisters->emitRemark("this copy goes through registers, and threads wait for it: ")
            << whyRegisters;
        carrier = Carrier::Registers;
      }
    }
    for (auto &[channel, tiles] : channels)
      for (SlotTile &tile : tiles) {
        if (tile.isStored()) {
          tile.buffer = chooseBuffer(cast<RankedTensorType>(storedIn(tile.fills.front()).getType()),
                                     tile, target);
          continue;
        }
        tile::LoadBlockOp load = blockIn(tile.fills.front());
        if (carrier == Carrier::Engine) {
          tile.buffer = *engineBuffer(load.getType(), *denseDimension(madeView(load.getView())));
          for (tile::FillOp fill : tile.fills) {
            OpBuilder builder(fill);
            blocks[fill] = makeTensorBlock(builder, *blockOf(blockIn(fill)), contiguity);
          }
        } else if (carrier == Carrier::Copies) {
          tile.buffer =
              chooseBuffer(load.getType(), tile, target, copiedAtOnce(load, contiguity, target));
          for (tile::FillOp fill : tile.fills)
            vectors[fill] = copiedAtOnce(blockIn(fill), contiguity, target);
        } else {
          tile.buffer = chooseBuffer(load.getType(), tile, target);
        }
      }
    return success();
  }

  static bool padsWithZeros(tile::LoadBlockOp load) {
    Attribute padding = load.getPaddingAttr();
    return !padding || matchPattern(padding, m_Zero()) || matchPattern(padding, m_PosZeroFloat());
  }

  std::string whyNotByEngine(tile::FillOp fill, const SlotTile &tile,
                             const ContiguityAnalysis &contiguity, AddressAnalysis &addresses) {
    if (!target.tensorCopy)
      return target.name + " has none";
    tile::LoadBlockOp load = blockIn(fill);
    if (!padsWithZeros(load))
      return "it pads with something else than zeros";
    if (load.getCache() != tile::Cache::Default || load.getEviction() != tile::Eviction::Normal)
      return "it has a hint for the cache";
    // Neither the engine nor other warps would see when.
    if (addresses.mayBeWritten(load))
      return "the kernel may write what it reads";
    if (load.getType().getRank() != 2)
      return "it has not two dimensions";
    std::string why = whyNoTensorBlock(*blockOf(load), contiguity);
    if (!why.empty())
      return why;
    const unsigned dense = *denseDimension(madeView(load.getView()));
    if (tile.along && tile.along != dense)
      return "the dot's instruction reads neighbours along the inner dimension, and those in "
             "memory lie across it";
    if (dense != denseDimension(madeView(blockIn(tile.fills.front()).getView())))
      return "its view is dense along another dimension than that of another copy to this channel";
    return whyNoBoxes(load.getType(), dense);
  }

  std::string whyNotAsynchronous(tile::FillOp fill, const SlotTile &tile,
                                 const ContiguityAnalysis &contiguity) const {
    if (!target.asyncCopy)
      return target.name + " has no asynchronous copies";
    tile::LoadBlockOp load = blockIn(fill);
    if (!padsWithZeros(load))
      return "it pads with something else than zeros";
    if (copiedAtOnce(load, contiguity, target) * cta::elementBits(load.getType()) < 32)
      return "neighbours in memory that one thread copies have less than 4 bytes";
    if (tile.along && tile.along != fastestAxis(*cta::layoutOf(load.getType())))
      return "the dot's instruction reads neighbours along the inner dimension, and those in "
             "memory lie across it";
    return {};
  }

  //===-- Partitions ----------------------------------------------------------------===//

  LogicalResult makePartitions() {
    SmallVector<tile::PartitionOp> partitions(getOperation().getBody().getOps<tile::PartitionOp>());
    if (partitions.empty()) {
      const LogicalResult alone = checkAll(getOperation(), [](tile::MbarriersOp barriers) {
        return barriers.emitError("nobody else arrives at these mbarriers: partitions signal to "
                                  "each other by them");
      });
      return failure(failed(alone) || failed(checkBarriers({})));
    }
    if (!target.tensorCopy)
      return partitions.front().emitError("a partition copies by the copy engine, and ")
             << target.name << " has none";
    if (anyIn(getOperation(), [](tile::WaitDependenciesOp) { return true; }))
      return partitions.front().emitError("the kernel says where it waits for the launch ahead, "
                                          "which a partition would not wait for");
    if (failed(checkOrder(partitions)))
      return failure();
    int32_t others = 0;
    std::string whyKept;
    if (!target.movesRegisters)
      whyKept = target.name + " moves none between warps";
    if (failed(checkFillers()) || failed(checkThreads(partitions, others, whyKept)))
      return failure();
    SmallVector<cta::PartitionOp> computing;
    for (tile::PartitionOp partition : partitions) {
      SmallVector<int32_t, 2> registers(partition.getRegisters());
      if (!registers.empty() && !whyKept.empty()) {
        partition.emitRemark("threads keep the registers that they are launched with: ") << whyKept;
        registers.clear();
      } else if (!registers.empty()) {
        registers[1] = others;
      }
      const bool isComputing = computes(partition);
      OpBuilder builder(partition);
      auto made = cta::PartitionOp::create(builder, partition.getLoc(), partition.getWarps(),
                                           registers, isComputing);
      made.getBody().takeBody(partition.getBody());
      partition.erase();
      if (isComputing)
        computing.push_back(made);
    }
    for (cta::PartitionOp partition : computing)
      if (failed(checkWarpgroups(partition)))
        return failure();
    return success(succeeded(checkBarriers(computing)) &&
                   succeeded(checkMemoryOfPartitions(getOperation())));
  }

  /// A partition begins with the kernel, whatever stands before it.
  LogicalResult checkOrder(ArrayRef<tile::PartitionOp> partitions) {
    return checkAll(getOperation(), [&](Operation *op) -> LogicalResult {
      if (!memoryOrderOf(op).acquires || partitionOf(op) ||
          isAhead(op, partitions.back()) == IsAhead::Never)
        return success();
      return op->emitError("a partition after this would not wait for it: what orders memory for "
                           "a partition's copies belongs into it");
    });
  }

  /// Whether one partition fills each channel, and others read it.
  LogicalResult checkFillers() {
    for (auto &[channel, tiles] : channels) {
      Operation *filler = nullptr, *first = nullptr;
      for (Operation *user : channel->getUsers())
        if (isa<tile::AcquireOp, tile::CommitOp>(user)) {
          if (first && partitionOf(user) != filler)
            return user->emitError("one partition fills a channel, or the rest of the kernel does");
          first = user;
          filler = partitionOf(user);
        }
      for (Operation *user : channel->getUsers())
        if (isa<tile::WaitOp, tile::ReleaseOp>(user) &&
            (filler ? partitionOf(user) == filler : partitionOf(user) != nullptr))
          return user->emitError(filler ? "a partition that waits for a channel waits for itself"
                                        : "a partition reads channels that other partitions fill");
    }
    return success();
  }

  /// Four warps that issue a `wgmma` together have numbers from a multiple of four on.
  LogicalResult checkWarpgroups(cta::PartitionOp partition) {
    const unsigned first = firstWarpOf(partition);
    return checkAll(partition, [&](cta::DotOp dot) -> LogicalResult {
      const MmaInstruction *instruction = instructionOf(dot, target);
      if (!instruction || first % instruction->warps() == 0)
        return success();
      return dot.emitError(
                 "four warps whose numbers begin at a multiple of four do this dot together, and ")
             << first
             << " warps come before this partition's: give the kernel a multiple of four warps";
    });
  }

  /// Whole partitions come to a named barrier, and as many as are left have a number.
  LogicalResult checkBarriers(ArrayRef<cta::PartitionOp> computing) {
    SmallVector<unsigned> parts{warpsOf(getOperation())};
    for (cta::PartitionOp partition : computing)
      parts.push_back(partition.getWarps());
    DenseSet<unsigned> sums{0};
    for (unsigned warps : parts)
      for (unsigned sum : SmallVector<unsigned>(sums.begin(), sums.end()))
        sums.insert(sum + warps);
    const unsigned taken = firstNamedBarrier(getOperation());
    return checkAll(getOperation(), [&](tile::NamedBarrierOp barrier) -> LogicalResult {
      if (computing.empty())
        return barrier.emitError(
            "nobody else comes to this barrier: partitions that compute meet at one");
      if (!sums.contains(barrier.getWarps()))
        return barrier.emitError("whole partitions meet at a barrier, and no choice of them has ")
               << barrier.getWarps() << " warps: they have "
               << llvm::join(
                      llvm::map_range(parts, [](unsigned warps) { return std::to_string(warps); }),
                      " and ");
      if (taken + barrier.getNumber() >= barriersOfBlock)
        return barrier.emitError("a block has ")
               << barriersOfBlock << " barriers: " << taken
               << " of them are for its partitions, and " << barriersOfBlock - taken << " are left";
      return success();
    });
  }

  /// Whether registers hold all threads as asked for; gives how many are left for the kernel's own,
  /// and why none are moved if none are.
  LogicalResult checkThreads(MutableArrayRef<tile::PartitionOp> partitions, int32_t &others,
                             std::string &whyKept) {
    const unsigned own = warpsOf(getOperation());
    unsigned more = 0, taken = 0;
    tile::PartitionOp moving;
    for (tile::PartitionOp partition : partitions) {
      more += partition.getWarps();
      ArrayRef<int32_t> registers = partition.getRegisters();
      if (registers.empty() || !target.movesRegisters)
        continue;
      if (others && registers[1] && registers[1] != others)
        return partition.emitError("partitions leave the others ")
               << others << " registers in one place and " << registers[1] << " in another";
      others = std::max(others, registers[1]);
      taken += partition.getWarps() * registers[0];
      moving = partition;
    }
    if ((own + more) * target.warpSize > target.maxThreads)
      return partitions.front().emitError("a block has at most ")
             << target.maxThreads << " threads, not " << (own + more) * target.warpSize;
    if (!moving)
      return success();
    for (tile::PartitionOp partition : partitions) {
      if (own % warpsOfWarpgroup || partition.getWarps() % warpsOfWarpgroup)
        return partition.emitError(
                   "registers are moved between groups of four warps: a partition of ")
               << partition.getWarps() << " and a kernel of " << own << " are not such groups";
      if (partition.getRegisters().empty())
        return partition.emitError("says no registers, but another partition does");
    }
    // Those that the block is launched with are moved, of which the file may have some to spare.
    const unsigned launched = launchedRegistersOf(own + more, target),
                   all = launched * (own + more);
    // Threads of a small block have more than any budget can leave them.
    if (launched > movedRegisters::most) {
      whyKept = "each has " + std::to_string(launched) + ", more than any budget";
      return success();
    }
    if (!others)
      others = registersLeftFor(own, more, taken, target);
    if (taken + own * others > all) {
      InFlightDiagnostic error = moving.emitError("the block is launched with ");
      error << all * target.warpSize << " registers: ";
      for (tile::PartitionOp partition : partitions)
        error << partition.getWarps() << " warps with " << partition.getRegisters()[0]
              << (partition == partitions.front() ? " for each thread and " : " and ");
      return error << own << " with " << others << " take "
                   << (taken + own * others) * target.warpSize;
    }
    for (tile::PartitionOp partition : partitions) {
      const unsigned asked = partition.getRegisters()[0];
      if ((!computes(partition) && asked > launched) || unsigned(others) < launched)
        return partition.emitError("all threads are launched with ")
               << launched << " registers: a partition gives some up and the others take them, but "
               << asked << " and " << others << " are asked for";
    }
    return success();
  }

  /// A barrier follows the making of mbarriers: `partition-warps` moves the two ahead together.
  /// Whatever number the kernel computes, none beyond them is used.
  void lowerMbarriers() {
    for (tile::MbarriersOp barriers : allIn<tile::MbarriersOp>(getOperation())) {
      OpBuilder builder(barriers);
      Value made = cta::MbarriersOp::create(
          builder, barriers.getLoc(),
          cta::MbarriersType::get(&getContext(), barriers.getType().getCount()), IntegerAttr(),
          barriers.getArrivals(), /*by_hand=*/true);
      cta::BarrierOp::create(builder, barriers.getLoc());
      const unsigned count = barriers.getType().getCount();
      for (Operation *user : llvm::make_early_inc_range(barriers->getUsers())) {
        builder.setInsertionPoint(user);
        const Location loc = user->getLoc();
        auto within = [&](Value number, unsigned of) {
          return builder.createOrFold<arith::RemUIOp>(
              loc, number, arith::ConstantIntOp::create(builder, loc, of, 32));
        };
        if (auto wait = dyn_cast<tile::MbarrierWaitOp>(user))
          cta::MbarrierWaitOp::create(builder, loc, made, within(wait.getIndex(), count),
                                      within(wait.getParity(), 2));
        else
          cta::MbarrierSignalOp::create(
              builder, loc, made, within(cast<tile::MbarrierArriveOp>(user).getIndex(), count));
        user->erase();
      }
      barriers.erase();
    }
  }

  //===-- Channels ------------------------------------------------------------------===//

  void lower(tile::ChannelOp channel, ArrayRef<SlotTile> tiles) {
    SmallVector<Operation *> users(channel->getUsers());
    const bool betweenWarps = llvm::any_of(users, [](Operation *user) {
      return isa<tile::AcquireOp>(user) && user->getParentOfType<cta::PartitionOp>();
    });
    OpBuilder builder(channel);
    SmallVector<Value> made;
    for (const SlotTile &tile : tiles)
      made.push_back(cta::ChannelOp::create(
          builder, channel.getLoc(),
          cta::ChannelType::get(&getContext(), channel.getType().getDepth(), tile.buffer),
          IntegerAttr(), betweenWarps, /*by_hand=*/true));
    DenseMap<Value, Value> buffers; // of slots
    for (Operation *user : users) {
      builder.setInsertionPoint(user);
      const Location loc = user->getLoc();
      if (auto acquire = dyn_cast<tile::AcquireOp>(user)) {
        for (auto [slot, ring, tile] : llvm::zip(acquire.getSlots(), made, tiles))
          buffers[slot] = cta::AcquireOp::create(builder, loc, tile.buffer, ring, acquire.getUse());
      } else if (auto commit = dyn_cast<tile::CommitOp>(user)) {
        cta::CommitOp::create(builder, loc, made, commit.getUse());
      } else if (auto release = dyn_cast<tile::ReleaseOp>(user)) {
        cta::ReleaseOp::create(builder, loc, made, release.getUse(), /*previous=*/false);
      } else if (auto wait = dyn_cast<tile::WaitOp>(user)) {
        SmallVector<Type> types;
        for (const SlotTile &tile : tiles)
          types.push_back(tile.buffer);
        auto waited = cta::WaitOp::create(builder, loc, types, made, wait.getUse());
        for (auto [slot, buffer] : llvm::zip(wait.getSlots(), waited.getBuffers()))
          buffers[slot] = buffer;
      }
    }
    for (const SlotTile &tile : tiles) {
      for (tile::FillOp fill : tile.fills)
        copy(fill, buffers.lookup(fill.getSlot()));
      for (const BufferUse &use : tile.uses) {
        builder.setInsertionPoint(use.operand->getOwner());
        readBuffer(builder, use, buffers.lookup(readBy(use.operand->get()).getSlot()));
      }
      for (tile::ReadSlotOp read : tile.reads) {
        builder.setInsertionPoint(read);
        read.replaceAllUsesWith(cta::LocalLoadOp::create(builder, read.getLoc(), read.getType(),
                                                         buffers.lookup(read.getSlot()))
                                    .getResult());
        read.erase();
      }
    }
    for (Operation *user : users)
      user->erase();
    channel->erase();
  }

  void copy(tile::FillOp fill, Value buffer) {
    OpBuilder builder(fill);
    const Location loc = fill.getLoc();
    if (fill.getStored()) {
      cta::LocalStoreOp::create(builder, loc, storedIn(fill), buffer);
      return fill.erase();
    }
    tile::LoadBlockOp load = blockIn(fill);
    if (carrier == Carrier::Engine) {
      const TensorBlock &block = blocks[fill];
      const bool shared =
          isSharedInCluster(load, fill, block, cast<cta::BufferType>(buffer.getType()), target);
      SmallVector<Value> coordinates = block.coordinatesOf(builder, loc, load.getOffsets());
      // Who waits for the use cannot know the condition: bytes come for it in any case.
      if (Value when = load.getWhen(); when && !matchPattern(when, m_One())) {
        moveOutsideUnless(builder, loc, when, coordinates);
        originOf(buffer).owner->setAttr(cta::maskedAttr, builder.getUnitAttr());
      }
      cta::TensorCopyBlockOp::create(builder, loc, block.view, coordinates, buffer,
                                     /*barriers=*/Value(), /*index=*/Value(), /*when=*/Value(),
                                     /*filled=*/Value(), /*expects=*/0, shared,
                                     /*lines=*/DenseI64ArrayAttr());
    } else if (carrier == Carrier::Copies) {
      cta::AsyncCopyBlockOp::create(
          builder, loc, load.getView(), load.getOffsets(), buffer, load.getWhen(),
          /*filled=*/Value(), cast<cta::LayoutAttr>(load.getType().getEncoding()), load.getCache(),
          load.getEviction(), builder.getI32IntegerAttr(vectors[fill]));
    } else {
      cta::LocalStoreOp::create(builder, loc, load, buffer);
    }
    fill.erase();
  }

  //===-- Dots in flight ------------------------------------------------------------===//

  /// Whether a tile is a slot's, which `select-mma` may have converted for an instruction.
  static bool followsSlot(Value tile) {
    Operation *op = tile.getDefiningOp();
    while (op && op->getNumOperands() == 1 && !isa<tile::ReadSlotOp>(op))
      op = op->getOperand(0).getDefiningOp();
    return isa_and_present<tile::ReadSlotOp>(op);
  }

  /// The dots to be in flight: none where some instruction is complete when its threads go on.
  LogicalResult findDots() {
    started.clear();
    bool isAsynchronous = true;
    getOperation().walk([&](cta::DotOp dot) {
      if (!dot->hasAttr(tile::inFlightAttr))
        return;
      started.push_back(dot);
      const MmaInstruction *instruction = instructionOf(dot, target);
      isAsynchronous &=
          instruction && instruction->isAsynchronous() && !instruction->promotionInterval;
    });
    for (cta::DotOp dot : started)
      if (isAsynchronous ? !readBy(dot.getB()) : !followsSlot(dot.getB()))
        return dot.emitError("a dot in flight reads its right operand from a slot of a channel, "
                             "and its left one from a slot or from registers: sc::dot takes other "
                             "tiles");
    if (isAsynchronous || started.empty())
      return success();
    started.front().emitRemark(
        "this dot is complete where it stands: its instruction runs beside no others");
    for (cta::DotOp dot : started)
      dot->removeAttr(tile::inFlightAttr);
    started.clear();
    return success();
  }

  LogicalResult startDots() {
    SmallVector<Operation *> waits;
    getOperation().walk([&](Operation *op) {
      if (isa<tile::DotWaitOp, tile::DotsWaitOp>(op))
        waits.push_back(op);
    });
    if (!started.empty() && failed(startAll()))
      return failure();
    for (Operation *op : waits) {
      OpBuilder builder(op);
      if (auto wait = dyn_cast<tile::DotsWaitOp>(op)) {
        if (!started.empty())
          cta::DotsWaitOp::create(builder, op->getLoc(), wait.getPending());
      } else {
        Value sums = op->getOperand(0); // no tile any more
        if (auto type = dyn_cast<cta::InFlightType>(sums.getType()))
          sums =
              cta::DotWaitOp::create(builder, op->getLoc(), type.getTile(), Type(), sums, Value())
                  .getSums();
        op->getResult(0).replaceAllUsesWith(sums);
      }
      op->erase();
    }
    return started.empty() ? success() : nameWaitsForDots(getOperation());
  }

  /// Follows sums in flight from dot to dot and through loops, to the waits.
  LogicalResult startAll() {
    SmallVector<Value> work;
    llvm::SetVector<Value> flying;
    auto add = [&](Value value) {
      if (flying.insert(value))
        work.push_back(value);
    };
    auto addCarried = [&](scf::ForOp loop, unsigned number) {
      add(loop.getRegionIterArg(number));
      add(loop.getResult(number));
      if (loop.getYieldedValues()[number].getDefiningOp<cta::DotOp>())
        add(loop.getYieldedValues()[number]);
    };
    for (cta::DotOp dot : started)
      add(dot.getResult());
    SmallVector<std::pair<scf::ForOp, unsigned>> loops;
    DenseSet<std::pair<Operation *, unsigned>> seen;
    while (!work.empty())
      for (OpOperand &use : llvm::make_early_inc_range(work.pop_back_val().getUses())) {
        Operation *user = use.getOwner();
        if (auto convert = dyn_cast<cta::ConvertLayoutOp>(user)) {
          if (failed(waitFirst(convert)))
            return failure();
          continue;
        }
        auto dot = dyn_cast<cta::DotOp>(user);
        auto loop = dyn_cast<scf::ForOp>(isa<scf::YieldOp>(user) ? user->getParentOp() : user);
        if (loop) {
          const unsigned number = isa<scf::YieldOp>(user)
                                      ? use.getOperandNumber()
                                      : use.getOperandNumber() - loop.getNumControlOperands();
          if (seen.insert({loop, number}).second)
            loops.push_back({loop, number});
          addCarried(loop, number);
        } else if (!isa<tile::DotWaitOp>(user) &&
                   !(dot && use.getOperandNumber() == 2 && dot->hasAttr(tile::inFlightAttr))) {
          return user->emitError("reads sums of a dot in flight: sc::cta::wait gives them");
        }
      }
    for (auto [loop, number] : loops) {
      OpOperand &init = loop.getInitArgsMutable()[number];
      if (flying.contains(init.get()))
        continue;
      OpBuilder builder(loop);
      init.set(cta::DotBeginOp::create(
          builder, loop.getLoc(),
          cta::InFlightType::get(&getContext(), cast<RankedTensorType>(init.get().getType())),
          init.get()));
    }
    for (Value value : flying)
      if (!value.getDefiningOp<cta::DotOp>())
        value.setType(
            cta::InFlightType::get(&getContext(), cast<RankedTensorType>(value.getType())));
    for (cta::DotOp dot : started) {
      OpBuilder builder(dot);
      auto start = cta::DotStartOp::create(
          builder, dot.getLoc(), cta::InFlightType::get(&getContext(), dot.getType()), dot.getA(),
          dot.getB(), dot->getOperand(2), dot.getInstructionAttr(), dot.getPrecision());
      if (isa<RankedTensorType>(dot.getA().getType()))
        start->setAttr(cta::ownRegistersAttr, builder.getUnitAttr());
      dot.getResult().replaceAllUsesWith(start.getResult());
      dot.erase();
    }
    return success();
  }

  /// Sums are converted once they are there.
  static LogicalResult waitFirst(cta::ConvertLayoutOp convert) {
    for (Operation *user : llvm::make_early_inc_range(convert->getUsers())) {
      auto wait = dyn_cast<tile::DotWaitOp>(user);
      if (!wait)
        return user->emitError("reads sums of a dot in flight: sc::cta::wait gives them");
      OpBuilder builder(wait->getContext());
      builder.setInsertionPointAfter(wait);
      wait.getDotMutable().assign(convert.getSource());
      Type converted = wait.getType();
      wait.getResult().setType(cast<RankedTensorType>(convert.getSource().getType()));
      auto after = cta::ConvertLayoutOp::create(builder, wait.getLoc(), converted, wait.getSums(),
                                                IntegerAttr());
      wait.getSums().replaceAllUsesExcept(after, after);
    }
    return success();
  }

  Target target;
  Carrier carrier = Carrier::Engine;
  llvm::MapVector<Operation *, std::vector<SlotTile>> channels;
  DenseMap<Operation *, TensorBlock> blocks;
  DenseMap<Operation *, unsigned> vectors;
  SmallVector<cta::DotOp> started;
};

} // namespace

} // namespace sectile
