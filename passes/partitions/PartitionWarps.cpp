// Moves copies into channels between warps to a producer partition, with what they need: loops,
// and the scalars that their coordinates are computed from, including loads of memory that the
// kernel never writes. The main partition keeps the rest and waits for the copies.
//
//   for use i:  wait until slot i is empty     producer:   for use i:  wait until slot i is empty
//               copy to slot i                                         copy to slot i
//               wait until slot i is full      main:       for use i:  wait until slot i is full
//               compute; release slot i                                compute; release slot i
//
// Each partition is a clone of the kernel from which the other's operations are removed.
#include "passes/partitions/PartitionWarps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "passes/DeadCode.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/SinkTiles.h"
#include "passes/analysis/Addresses.h"
#include "passes/analysis/Blocks.h"
#include "passes/analysis/MemoryOrder.h"
#include "passes/analysis/Registers.h"
#include "passes/analysis/SharedMemory.h"
#include "llvm/ADT/SetVector.h"

namespace sectile {
#define GEN_PASS_DEF_PARTITIONWARPS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;

namespace sectile {

namespace {

/// What some operations of a kernel need: operations, and of loops the values that these carry.
class Slice {
public:
  explicit Slice(func::FuncOp kernel) : kernel(kernel) {}

  void add(Operation *op) {
    roots.insert(op);
    needAround(op);
    llvm::for_each(op->getOperands(), [&](Value operand) { need(operand); });
  }

  /// Adds what a region takes from around it.
  void addAround(Region &region) {
    region.walk([&](Operation *op) {
      for (Value operand : op->getOperands())
        if (!region.isAncestor(operand.getParentRegion()))
          need(operand);
    });
  }

  /// Why it cannot be done by another thread; empty when it can.
  std::string whyNot() const { return refusal; }

  bool has(Operation *op) const { return roots.contains(op) || ops.contains(op); }
  /// Numbers of the values that a loop carries.
  SmallVector<unsigned> carriedBy(Operation *loop) const {
    auto found = carried.find(loop);
    if (found == carried.end())
      return {};
    SmallVector<unsigned> numbers(found->second.begin(), found->second.end());
    llvm::sort(numbers);
    return numbers;
  }

private:
  void refuse(const Twine &why) {
    if (refusal.empty())
      refusal = why.str();
  }

  void need(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      Operation *owner = argument.getOwner()->getParentOp();
      if (owner == kernel)
        return;
      auto loop = dyn_cast<scf::ForOp>(owner);
      if (!loop)
        return refuse("its copies depend on what a loop without a count carries");
      needControl(loop);
      if (argument != loop.getInductionVar())
        needCarried(loop, argument.getArgNumber() - loop.getNumInductionVars());
      return;
    }
    Operation *op = value.getDefiningOp();
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      needControl(loop);
      return needCarried(loop, cast<OpResult>(value).getResultNumber());
    }
    if (!ops.insert(op))
      return;
    needAround(op);
    // They are made ahead of everything.
    if (isa<cta::ChannelOp, cta::MbarriersOp>(op))
      return;
    if (isLoad(op) ? !canRepeat(op) : !isMemoryEffectFree(op))
      return refuse("its copies depend on " + op->getName().getStringRef());
    if (op->getNumRegions() != 0 || llvm::any_of(op->getOperands(), isOfWarps) ||
        llvm::any_of(op->getResults(), isOfWarps))
      return refuse("its copies depend on a tile, by " + op->getName().getStringRef());
    llvm::for_each(op->getOperands(), [&](Value operand) { need(operand); });
  }

  void needCarried(scf::ForOp loop, unsigned number) {
    if (!carried[loop].insert(number).second)
      return;
    need(loop.getInitArgs()[number]);
    need(loop.getYieldedValues()[number]);
  }

  void needAround(Operation *op) {
    for (Operation *around = op->getParentOp(); around != kernel; around = around->getParentOp())
      needControl(around);
  }

  void needControl(Operation *op) {
    if (!ops.insert(op))
      return;
    needAround(op);
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      for (Value bound : {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()})
        need(bound);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      need(branch.getCondition());
    } else {
      refuse("its copies are in " + op->getName().getStringRef());
    }
  }

  /// Whether a load gives the same to all who make it.
  bool canRepeat(Operation *load) {
    if (!addresses)
      addresses.emplace(kernel);
    return !isVolatileLoad(load) && !addresses->mayBeWritten(load);
  }

  func::FuncOp kernel;
  DenseSet<Operation *> roots;
  llvm::SetVector<Operation *> ops;
  DenseMap<Operation *, DenseSet<unsigned>> carried;
  std::optional<AddressAnalysis> addresses; ///< once a load is needed
  std::string refusal;
};

/// Registers of a thread of the producer partition and of the main one, so that all fit; nothing
/// where all threads have the most anyway, or keep what they are launched with.
SmallVector<int32_t, 2> registersFor(unsigned warps, const Target &target) {
  const unsigned producerWarps = producerWarpsOf(target);
  const unsigned threads = (warps + producerWarps) * target.warpSize;
  if (!target.movesRegisters || threads * target.maxRegistersPerThread <= target.registersPerUnit)
    return {};
  constexpr unsigned kept = movedRegisters::producer;
  return {kept, int32_t(registersLeftFor(warps, producerWarps, kept * producerWarps, target))};
}

/// Computes before the first of the partitions, once for all, what no loop of theirs has a part in.
void shareScalars(MutableArrayRef<cta::PartitionOp> partitions) {
  Operation *first = partitions.front();
  Block *body = first->getBlock();
  auto isBefore = [&](Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return argument.getOwner() == body;
    Operation *op = value.getDefiningOp();
    return op->getBlock() == body && op->isBeforeInBlock(first);
  };
  auto isShared = [&](Operation &op) {
    return op.getNumRegions() == 0 && op.getNumResults() == 1 && isMemoryEffectFree(&op) &&
           !isOfWarps(op.getResult(0)) && llvm::all_of(op.getOperands(), isBefore);
  };
  SmallVector<Operation *> shared;
  for (Operation &op : llvm::make_range(body->begin(), first->getIterator()))
    if (isShared(op))
      shared.push_back(&op);
  auto replace = [&](Operation &op) {
    for (Operation *same : shared)
      if (OperationEquivalence::isEquivalentTo(&op, same, OperationEquivalence::IgnoreLocations)) {
        op.replaceAllUsesWith(same);
        op.erase();
        return true;
      }
    return false;
  };
  for (cta::PartitionOp partition : partitions)
    for (Operation &op : llvm::make_early_inc_range(partition.getBody().front()))
      if (isShared(op) && !replace(op)) {
        op.moveBefore(first);
        shared.push_back(&op);
      }
  for (Operation &op :
       llvm::make_early_inc_range(llvm::make_range(partitions.back()->getIterator(), body->end())))
    if (isShared(op))
      replace(op);
}

struct PartitionWarps : sectile::impl::PartitionWarpsBase<PartitionWarps> {
  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    FailureOr<Target> target = targetOf(kernel);
    if (failed(target))
      return signalPassFailure();
    SmallVector<cta::PartitionOp> stated(kernel.getBody().getOps<cta::PartitionOp>());
    if (!stated.empty()) {
      if (failed(moveAhead(stated)))
        return signalPassFailure();
      eraseDeadCode(kernel);
      return;
    }
    // Readers arrive where producers wait.
    DenseSet<Value> empties;
    kernel.walk([&](cta::MbarrierArriveOp arrive) { empties.insert(arrive.getBarriers()); });
    SmallVector<Operation *> moved;
    kernel.walk([&](Operation *op) {
      auto copy = dyn_cast<cta::TensorCopyOp>(op);
      auto wait = dyn_cast<cta::MbarrierWaitOp>(op);
      auto acquire = dyn_cast<cta::ClusterAcquireOp>(op);
      if ((copy && isFilledByProducer(copy.getBuffer())) ||
          (wait && empties.contains(wait.getBarriers())) ||
          (acquire && isFilledByProducer(acquire.getBuffers().front())))
        moved.push_back(op);
    });
    if (moved.empty())
      return;
    Slice slice(kernel);
    llvm::for_each(moved, [&](Operation *op) { slice.add(op); });
    // Copies after a wait for the launches ahead may be of what these write.
    for (auto wait : kernel.getBody().getOps<tile::WaitDependenciesOp>())
      if (llvm::any_of(moved, [&](Operation *op) { return isAhead(wait, op) != IsAhead::Never; }))
        slice.add(wait);
    if (std::string why = slice.whyNot(); !why.empty()) {
      kernel.emitOpError("cannot be partitioned: ") << why;
      return signalPassFailure();
    }
    Block &body = kernel.getBody().front();
    OpBuilder builder(&body, body.begin());
    makeFirst(builder, slice);
    auto partition = cta::PartitionOp::create(
        builder, kernel.getLoc(), producerWarpsOf(*target),
        builder.getDenseI32ArrayAttr(registersFor(warpsOf(kernel), *target)));
    share(partition, slice);
    OpBuilder inside = OpBuilder::atBlockBegin(&partition.getBody().emplaceBlock());
    IRMapping map;
    for (Operation *op = partition->getNextNode(); op != body.getTerminator();
         op = op->getNextNode())
      clone(inside, op, slice, map);
    for (Operation *op : moved)
      op->erase();
    eraseDeadCode(kernel);
  }

  /// Before the partitions that the kernel states its own warps do what all warps do: nothing but
  /// what the partitions take from around them.
  LogicalResult moveAhead(MutableArrayRef<cta::PartitionOp> partitions) {
    Slice slice(getOperation());
    for (cta::PartitionOp partition : partitions) {
      // What the partitions have in common was made once.
      if (failed(sinkTiles(partition.getBody())))
        return failure();
      slice.addAround(partition.getBody());
      if (std::string why = slice.whyNot(); !why.empty())
        return partition.emitError(
                   "a partition computes with scalars that other warps can compute as "
                   "well: ")
               << why;
    }
    Block &body = getOperation().getBody().front();
    // Where all of it goes; channels may be first themselves.
    OpBuilder builder(&body, body.begin());
    Operation *place = cta::BarrierOp::create(builder, partitions.front().getLoc());
    builder.setInsertionPoint(place);
    makeFirst(builder, slice);
    for (Operation &op : llvm::make_early_inc_range(
             llvm::make_range(std::next(place->getIterator()), partitions.back()->getIterator())))
      if (slice.has(&op))
        op.moveBefore(place);
    for (cta::PartitionOp partition : partitions)
      partition->moveBefore(place);
    place->erase();
    shareScalars(partitions);
    return success();
  }

  /// Channels and mbarriers come before the partition, and so does the barrier after which all see
  /// them.
  void makeFirst(OpBuilder &builder, const Slice &slice) {
    SmallVector<Operation *> made;
    getOperation().walk([&](Operation *op) {
      if (isa<cta::ChannelOp, cta::MbarriersOp>(op) && slice.has(op))
        made.push_back(op);
    });
    SmallVector<Value> ofCluster; // channels that the cluster's other block writes to
    for (Operation *op : made) {
      // A barrier comes after the last mbarriers of a ring.
      Operation *next = op->getNextNode();
      if (isa<cta::MbarriersOp>(op) &&
          isa_and_present<cta::BarrierOp, cta::ClusterBarrierOp>(next)) {
        if (auto barrier = dyn_cast<cta::ClusterBarrierOp>(next))
          llvm::append_range(ofCluster, barrier.getChannels());
        next->erase();
      }
      op->moveBefore(builder.getBlock(), builder.getInsertionPoint());
    }
    if (ofCluster.empty())
      cta::BarrierOp::create(builder, getOperation().getLoc());
    else
      cta::ClusterBarrierOp::create(builder, getOperation().getLoc(), ofCluster);
  }

  /// Computes once, before the partition, what no loop has a part in. Loads after a wait for the
  /// launches ahead may be of what these write, and stay after the wait of either side.
  static void share(cta::PartitionOp partition, const Slice &slice) {
    Block *body = partition->getBlock();
    bool waits = false;
    for (Operation &op : llvm::make_early_inc_range(
             llvm::make_range(std::next(partition->getIterator()), body->end()))) {
      waits |= isa<tile::WaitDependenciesOp>(op);
      if (waits && isLoad(&op))
        continue;
      auto isBefore = [&](Value operand) {
        Operation *made = operand.getDefiningOp();
        return !made || made->isBeforeInBlock(partition);
      };
      if (slice.has(&op) && op.getNumRegions() == 0 && op.getNumResults() > 0 &&
          llvm::all_of(op.getOperands(), isBefore))
        op.moveBefore(partition);
    }
  }

  static void clone(OpBuilder &builder, Operation *op, const Slice &slice, IRMapping &map) {
    if (!slice.has(op))
      return;
    if (auto loop = dyn_cast<scf::ForOp>(op))
      clone(builder, loop, slice, map);
    else if (auto branch = dyn_cast<scf::IfOp>(op))
      clone(builder, branch, slice, map);
    else
      builder.clone(*op, map);
  }
  static void clone(OpBuilder &builder, Block &block, const Slice &slice, IRMapping &map) {
    for (Operation &op : block.without_terminator())
      clone(builder, &op, slice, map);
  }

  static void clone(OpBuilder &builder, scf::ForOp loop, const Slice &slice, IRMapping &map) {
    const SmallVector<unsigned> carried = slice.carriedBy(loop);
    SmallVector<Value> inits;
    for (unsigned number : carried)
      inits.push_back(map.lookupOrDefault(loop.getInitArgs()[number]));
    auto of = [&](Value value) { return map.lookupOrDefault(value); };
    auto made = scf::ForOp::create(builder, loop.getLoc(), of(loop.getLowerBound()),
                                   of(loop.getUpperBound()), of(loop.getStep()), inits,
                                   [](OpBuilder &, Location, Value, ValueRange) {});
    made.setUnsignedCmp(loop.getUnsignedCmp());
    map.map(loop.getInductionVar(), made.getInductionVar());
    for (auto [i, number] : llvm::enumerate(carried)) {
      map.map(loop.getRegionIterArg(number), made.getRegionIterArg(i));
      map.map(loop.getResult(number), made.getResult(i));
    }
    OpBuilder inside = OpBuilder::atBlockEnd(made.getBody());
    clone(inside, *loop.getBody(), slice, map);
    SmallVector<Value> yielded;
    for (unsigned number : carried)
      yielded.push_back(of(loop.getYieldedValues()[number]));
    scf::YieldOp::create(inside, loop.getLoc(), yielded);
  }

  static void clone(OpBuilder &builder, scf::IfOp branch, const Slice &slice, IRMapping &map) {
    auto made = scf::IfOp::create(builder, branch.getLoc(), TypeRange(),
                                  map.lookupOrDefault(branch.getCondition()),
                                  /*withElseRegion=*/branch.elseBlock() != nullptr);
    for (auto [from, to] : {std::pair(branch.thenBlock(), made.thenBlock()),
                            std::pair(branch.elseBlock(), made.elseBlock())})
      if (from) {
        OpBuilder inside = OpBuilder::atBlockBegin(to);
        clone(inside, *from, slice, map);
      }
  }
};

} // namespace

/// Whether what the producer copies may not be there yet without an operation that the others
/// do: an acquire ahead of the copies, or a wait for the launches ahead that is not for every
/// launch of the kernel.
static std::string whyNotWithout(Operation *order, ArrayRef<Operation *> operations,
                                 AddressAnalysis &addresses) {
  const OrderingEffects what = memoryOrderOf(order);
  if (what.awaitsLaunches && !isa<func::FuncOp>(order->getParentOp()))
    return "the kernel waits for the launch ahead in a branch or a loop";
  auto follows = [&](Operation *op) { return mustFollow(op, order, addresses); };
  if (what.acquires && llvm::any_of(operations, follows))
    return ("the kernel orders memory before its copies, by " + order->getName().getStringRef())
        .str();
  return {};
}

std::string whyNoPartition(func::FuncOp kernel, ArrayRef<Operation *> operations) {
  AddressAnalysis addresses(kernel);
  std::string why;
  if (anyIn(kernel, [&](Operation *op) {
        why = whyNotWithout(op, operations, addresses);
        return !why.empty();
      }))
    return why;
  Slice slice(kernel);
  llvm::for_each(operations, [&](Operation *op) { slice.add(op); });
  return slice.whyNot();
}

LogicalResult checkMemoryOfPartitions(func::FuncOp kernel) {
  AddressAnalysis addresses(kernel);
  EndedIterations all = 0;
  kernel.walk([&](scf::ForOp loop) { all |= addresses.bitOf(loop); });
  std::vector<std::pair<Operation *, GlobalAccess>> reads, writes;
  kernel.walk([&](Operation *op) {
    if (std::optional<GlobalAccess> access = addresses.accessOf(op))
      (access->writes ? writes : reads).push_back({op, *std::move(access)});
  });
  for (const auto &[reader, read] : reads)
    for (const auto &[writer, write] : writes)
      if (partitionOf(reader) != partitionOf(writer) &&
          (addresses.mayOverlap(read, write, all) || addresses.mayOverlap(write, read, all))) {
        InFlightDiagnostic error =
            reader->emitError("may read what other warps of the kernel write: nothing orders what "
                              "partitions do to global memory");
        error.attachNote(writer->getLoc()) << "it is written here";
        return error;
      }
  return success();
}

} // namespace sectile
