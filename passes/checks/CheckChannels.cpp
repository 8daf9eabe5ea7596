// Checks what channels were lowered to, as checks/ChannelRun.h runs it, for loops of 0, 1, 2, …
// iterations until the state repeats.
//
// The kernel's scalars are computed with numbers, so that slots, parities, conditions of copies and
// trip counts are those of one launch. What the launch leaves open is chosen: the bounds of a loop,
// so that it does as many iterations as the run asks for, and conditions, which are false in one
// run, true in another, and change from one time to the next in a third. Bounds come first, as what
// is copied ahead of a loop follows from them.
//
// There need not be a launch of all these numbers, as bounds and conditions are chosen one by one.
// A fault is one all the same: passes make channels without a look at what a loop's bounds are
// computed from, and rely on three things, which hold here as well.
// - Whoever computes the same comes to the same: checks/LaunchNumbers.h.
// - What passes compute from a loop's bounds is computed with those that were chosen: whether there
//   is an iteration, or another one, and where the last one is, which a delayed dot does by itself.
// - What they left out follows from what a value can be, and nothing else is chosen for it.
#include "ir/MmaElements.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/Clusters.h"
#include "passes/analysis/DotsInFlight.h"
#include "passes/analysis/MemoryOrder.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/analysis/Warps.h"
#include "passes/checks/ChannelFaults.h"
#include "passes/checks/LaunchNumbers.h"
#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace sectile {
#define GEN_PASS_DEF_CHECKCHANNELS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

using Event = ChannelRun::Event;

/// Iterations of all runs of a kernel beyond which no further run is made, and of one run.
constexpr unsigned mostIterations = 400, mostOfOneRun = 2000;

/// Iterations of a loop of which none are left out.
constexpr int64_t mostInFull = 32;

constexpr int64_t mbarrierBytes = 8;

/// Bytes in shared memory, as cells: what lies between two neighbouring bounds of anything there.
struct Cells {
  uint32_t begin, end;
  uint32_t middle; ///< where the half begins that the cluster's second block copies
};

/// What a kernel's threads do, as events, for one choice of trip counts and of open conditions.
class Programs {
public:
  Programs(func::FuncOp kernel, const Target &target)
      : kernel(kernel), target(target), partitionCount(countPartitions(kernel)),
        numbers(kernel, partitionCount > 1), blockCount(clusterOf(kernel)) {
    const auto added = kernel.getBody().getOps<cta::PartitionOp>();
    partitions.resize(blockCount * partitionCount);
    for (auto [i, each] : llvm::enumerate(partitions)) {
      each.block = i / partitionCount;
      each.singleThread = i % partitionCount != 0;
    }
    for (auto [i, op] : llvm::enumerate(added))
      for (uint32_t block = 0; block < blockCount; ++block)
        partitions[block * partitionCount + 1 + i].singleThread = !op.getComputes();
    kernel.walk([&](tile::NamedBarrierOp barrier) {
      namedWarps.resize(std::max<size_t>(namedWarps.size(), barrier.getNumber() + 1), 1);
      namedWarps[barrier.getNumber()] = barrier.getWarps();
    });
    // Each of the two threads that stand for warpgroups in turn has a barrier, where it waits and
    // the other comes.
    firstTurn = namedWarps.size();
    namedWarps.append({1, 1});
    placeCells();
    kernel.getBody().walk([&](Operation *op) {
      SmallVector<Template, 3> found = templatesOf(op);
      if (found.empty())
        return;
      matter(op->getParentOp());
      for (const Template &event : found)
        for (Value value : {event.index, event.signalled, event.parity, event.when})
          need(value);
      templates[op] = std::move(found);
    });
    makeSteps(kernel.getBody().front());
  }

  /// Of all blocks of a cluster.
  uint32_t numCells() const { return cellCount * blockCount; }
  /// For each mbarrier, how many arrivals complete a phase. Each counts twice: two threads stand
  /// for all warps of a partition, and where one thread arrives, it stands for both.
  std::vector<uint32_t> arrivals() const {
    std::vector<uint32_t> counts(mbarrierCount * blockCount, 1);
    for (auto [op, first] : firstMbarrier) {
      auto barriers = cast<cta::MbarriersOp>(op);
      for (uint32_t block = 0; block < blockCount; ++block)
        std::fill_n(counts.begin() + block * mbarrierCount + first, barriers.getType().getCount(),
                    2 * barriers.getArrivals());
    }
    return counts;
  }
  std::vector<uint32_t> namedBarriers() const {
    std::vector<uint32_t> warps;
    for (uint32_t block = 0; block < blockCount; ++block)
      llvm::append_range(warps, namedWarps);
    return warps;
  }
  /// Buffers of the deepest ring.
  uint32_t deepest() const { return depth; }
  /// Positions of what an event's cells are one of.
  uint32_t ringOf(const Event &event) const {
    auto found = cells.find(static_cast<const Operation *>(event.owner));
    return found == cells.end() ? 1 : found->second.size();
  }

  /// What each block of a cluster does when the first loop whose number of iterations is open does
  /// `trips` of them, and `pattern` says how open conditions come out: none, all, every other time.
  /// Fails where a slot or a parity cannot be told, with the reason as `unknown`.
  FailureOr<ArrayRef<ChannelRun::Partition>> run(unsigned trips, unsigned pattern) {
    numbers.begin();
    for (ChannelRun::Partition &each : partitions)
      each.program.clear();
    wanted = trips;
    this->pattern = pattern;
    marked.assign(partitionCount, nullptr);
    partition = 0;
    nextPartition = 1;
    hasParted = partitionCount == 1;
    openLoops = openConditions = iterations = 0;
    isValid = true;
    iteration = tripsHere = 0;
    mostTrips = 0;
    if (failed(visit(kernel.getBody().front())))
      return failure();
    return ArrayRef<ChannelRun::Partition>(partitions);
  }
  std::function<void()> unknown;
  /// Whether the last run was of a launch that the language allows: steps are positive.
  bool isValid = true;
  /// What the last run came upon: loops and conditions that it had to choose for, and iterations.
  unsigned openLoops = 0, openConditions = 0, iterations = 0;
  /// How many iterations the first of these loops did.
  unsigned mostTrips = 0;
  /// How many the next one after it will do, modulo what two turns of the rings and more take.
  unsigned furtherTrips = 1;
  /// Whether the loops after it have done all numbers of iterations.
  bool areLoopsVaried() const { return openLoops < 2 || furtherTrips >= numbersOfTrips(); }
  /// Whether the last run was given up.
  bool isCutShort() const { return iterations > mostOfOneRun; }

private:
  /// An event, but for what depends on numbers.
  struct Template {
    Event event;
    ArrayRef<Cells> positions; ///< of the owner of its cells
    Value index;               ///< in these
    Operation *barriers = nullptr;
    Value signalled; ///< of these
    Value parity, when;
    bool inOther = false; ///< in the shared memory of the cluster's other block
  };
  struct Step {
    Operation *op;
    ArrayRef<Template> events;
    unsigned loopsBefore; ///< of those of the block
  };
  struct Steps {
    std::vector<Step> steps;
    SmallVector<unsigned> made;    ///< values of the block
    SmallVector<scf::ForOp> loops; ///< in it and in its regions
  };

  static uint32_t countPartitions(func::FuncOp kernel) {
    const auto added = kernel.getBody().getOps<cta::PartitionOp>();
    return 1 + std::distance(added.begin(), added.end());
  }

  /// Neither even nor a multiple of three: two, three or four loops in turn get all of them.
  unsigned numbersOfTrips() const { return (3 * depth + 1) | 1; }

  void placeCells() {
    std::map<int64_t, uint32_t> bounds;
    SmallVector<std::pair<Operation *, SmallVector<std::pair<int64_t, int64_t>>>> places;
    kernel.walk([&](Operation *op) {
      std::optional<int64_t> offset = sharedOffset(op);
      if (!offset)
        return;
      auto &positions = places.emplace_back(op, SmallVector<std::pair<int64_t, int64_t>>()).second;
      int64_t count = 1, step = 0, bytes = 0;
      if (auto channel = dyn_cast<cta::ChannelOp>(op)) {
        const cta::ChannelType type = channel.getType();
        count = type.getDepth(), step = type.getSlotBytes(), bytes = type.getBuffer().getBytes();
        depth = std::max<uint32_t>(depth, count);
        period = std::lcm(period, 2 * count);
      } else if (auto barriers = dyn_cast<cta::MbarriersOp>(op)) {
        count = barriers.getType().getCount(), step = bytes = mbarrierBytes;
        firstMbarrier[op] = mbarrierCount;
        mbarrierCount += count;
      } else if (auto alloc = dyn_cast<cta::AllocOp>(op)) {
        bytes = alloc.getType().getBytes();
      } else {
        bytes = (scratches[op] = scratchOf(op)).bytes;
      }
      for (int64_t i = 0; i < count; ++i) {
        const int64_t begin = *offset + i * step;
        positions.push_back({begin, begin + bytes});
        bounds[begin] = bounds[begin + bytes] = 0;
        if (isa<cta::ChannelOp>(op) && blockCount > 1)
          bounds[begin + bytes / 2] = 0;
      }
    });
    for (auto &[bound, number] : bounds)
      number = cellCount++;
    for (auto &[op, positions] : places)
      for (auto [begin, end] : positions)
        cells[op].push_back({bounds[begin], bounds[end],
                             isa<cta::ChannelOp>(op) && blockCount > 1
                                 ? bounds[begin + (end - begin) / 2]
                                 : bounds[end]});
  }

  SmallVector<Template, 3> templatesOf(Operation *op) {
    SmallVector<Template, 3> found;
    auto add = [&](Event::Kind kind, Operation *owner = nullptr, Value index = {}) -> Template & {
      Template &made = found.emplace_back();
      made.event.kind = kind;
      made.event.tag = op;
      made.event.owner = owner;
      made.index = index;
      if (auto placed = cells.find(owner); placed != cells.end())
        made.positions = placed->second;
      return made;
    };
    auto addQueued = [&](Event::Kind kind, ChannelRun::Queue queue, int64_t amount = 0) {
      Event &made = add(kind).event;
      made.queue = queue;
      made.amount = amount;
    };
    auto addAt = [&](Event::Kind kind, Value barriers, Value index) -> Template & {
      Template &made = add(kind, barriers.getDefiningOp(), index);
      made.barriers = barriers.getDefiningOp();
      made.signalled = index;
      return made;
    };
    const bool byProxy = isThroughProxy(op, target), starts = byProxy && isa<cta::DotStartOp>(op);
    auto copy = dyn_cast<cta::TensorCopyOp>(op);
    auto kindOf = [&](BufferAccess::Kind kind) {
      switch (kind) {
      case BufferAccess::Read:
        return starts ? Event::QueuedRead : Event::Read;
      case BufferAccess::Write:
        return Event::Write;
      case BufferAccess::AsyncWrite:
        return Event::QueuedWrite;
      case BufferAccess::EngineWrite:
        return Event::EngineWrite;
      }
      llvm_unreachable("all kinds are above");
    };
    auto [meetsBefore, meetsAfter] = meetsAround(op);
    if (meetsBefore)
      add(Event::SyncBlock);
    if (isa<cta::AllocOp, cta::ChannelOp>(op))
      add(Event::Allocate, op).event.singleThread = true;
    if (auto barriers = dyn_cast<cta::MbarriersOp>(op)) {
      for (unsigned i = 0; i < barriers.getType().getCount(); ++i) {
        Event &made = add(Event::InitMbarrier, op).event;
        made.singleThread = true;
        made.position = i;
        made.mbarrier = firstMbarrier.lookup(op) + i;
      }
      return found;
    }
    if (auto acquire = dyn_cast<cta::ClusterAcquireOp>(op)) {
      for (auto kind : {Event::Arrive, Event::WaitPhase}) {
        Template &made = addAt(kind, acquire.getBarriers(), acquire.getIndex());
        made.event.singleThread = true;
        made.event.times = 2;
        made.when = acquire.getWhen();
        made.inOther = kind == Event::Arrive;
        if (kind == Event::WaitPhase)
          made.parity = acquire.getParity();
      }
      return found;
    }
    if (auto barrier = dyn_cast<tile::NamedBarrierOp>(op)) {
      for (auto kind : {Event::BarrierArrive, Event::BarrierWait}) {
        if (kind == Event::BarrierWait && barrier.getArrives())
          break;
        Event &made = add(kind).event;
        made.amount = warpsOf(op);
        made.mbarrier = barrier.getNumber();
      }
      return found;
    }
    auto takeTurn = [&](Event::Turn turn, bool outside, bool waits) {
      for (auto kind : {Event::BarrierArrive, Event::BarrierWait}) {
        if (kind == Event::BarrierWait && !waits)
          break;
        Event &made = add(kind).event;
        made.amount = 1;
        made.mbarrier = firstTurn;
        made.turn = turn;
        made.atFirst = outside;
      }
    };
    if (auto wait = dyn_cast<cta::TurnWaitOp>(op)) {
      takeTurn(Event::Own, wait.getOutside(), /*waits=*/true);
      return found;
    }
    if (auto pass = dyn_cast<cta::TurnPassOp>(op)) {
      takeTurn(Event::Others, pass.getOutside(), /*waits=*/false);
      return found;
    }
    if (isa<cta::ClusterBarrierOp>(op)) {
      add(Event::SyncCluster);
      return found;
    }
    if (copy && copy.getExpects()) {
      Template &arrival = addAt(Event::Arrive, copy.getBarriers(), copy.getIndex());
      arrival.event.amount = copy.getExpects();
      arrival.event.singleThread = true;
      arrival.event.times = 2;
      arrival.when = copy.getWhen();
    }
    for (const BufferAccess &access : bufferAccesses(op)) {
      Template &made = add(kindOf(access.kind), access.origin.owner, access.origin.index);
      made.event.queue = starts ? ChannelRun::Dots : ChannelRun::Copies;
      made.event.byProxy = byProxy;
      made.event.singleThread =
          isa<cta::TensorCopyOp, cta::TensorStoreOp, cta::TensorStoreWaitOp>(op);
      if (copy) {
        made.event.amount = copy.getBuffer().getType().getBytes();
        made.event.isShared = copy.getShared();
        made.barriers = copy.getBarriers().getDefiningOp();
        made.signalled = copy.getIndex();
        made.when = copy.getWhen();
      } else if (auto wait = dyn_cast<cta::TensorStoreWaitOp>(op)) {
        made.when = wait.getWhen();
      }
    }
    if (copy && copy.getShared()) {
      // A half to each block, whose mbarrier has to be there.
      Template half = found.pop_back_val();
      half.event.amount /= 2;
      for (bool inOther : {false, true}) {
        Template &there = addAt(Event::Read, copy.getBarriers(), copy.getIndex());
        there.event.singleThread = true;
        there.when = copy.getWhen();
        there.inOther = half.inOther = inOther;
        found.push_back(half);
      }
    }
    if (starts)
      addQueued(Event::CloseGroup, ChannelRun::Dots);
    if (scratches.contains(op))
      add(Event::Write, op);
    if (meetsAfter)
      add(Event::SyncBlock);
    if (scratches.lookup(op).acrossWarps) {
      add(Event::SyncBlock);
      add(Event::Read, op);
    }
    auto arriveAt = [&](auto arrive) -> Template & {
      Template &made = addAt(Event::Arrive, arrive.getBarriers(), arrive.getIndex());
      made.event.times = isForOneThread(op) ? 2 : warpsOf(op);
      return made;
    };
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](cta::MbarrierArriveOp arrive) { arriveAt(arrive).when = arrive.getWhen(); })
        .Case([&](cta::MbarrierSignalOp signal) { arriveAt(signal); })
        .Case([&](cta::MbarrierWaitOp wait) {
          addAt(Event::WaitPhase, wait.getBarriers(), wait.getIndex()).parity = wait.getParity();
        })
        .Case([&](cta::AsyncCommitOp) { addQueued(Event::CloseGroup, ChannelRun::Copies); })
        .Case([&](cta::AsyncWaitOp wait) {
          addQueued(Event::AwaitGroups, ChannelRun::Copies, wait.getPending());
        })
        .Case([&](cta::DotsWaitOp wait) {
          addQueued(Event::AwaitGroups, ChannelRun::Dots, wait.getPending());
        })
        .Case([&](cta::DotWaitOp wait) {
          addQueued(Event::AwaitGroups, ChannelRun::Dots, wait.getPending());
        })
        .Case([&](cta::ProxyFenceOp fence) {
          if (!fence->hasAttr(globalFenceAttr))
            add(Event::Fence);
        })
        .Case<cta::BarrierOp, tile::BarrierOp>([&](auto) { add(Event::SyncBlock); });
    return found;
  }

  /// Control flow that has events in it or gives a number that one needs, with what is around it.
  void matter(Operation *op) {
    for (; op != kernel && controls.insert(op).second; op = op->getParentOp()) {
      if (auto loop = dyn_cast<scf::ForOp>(op))
        for (Value value : {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()})
          need(value);
      else if (auto branch = dyn_cast<scf::IfOp>(op))
        need(branch.getCondition());
      else if (auto loop = dyn_cast<scf::WhileOp>(op))
        need(loop.getConditionOp().getCondition());
    }
  }

  /// Gives a value a number to be computed, with all that it is computed from.
  void need(Value value) {
    if (!numbers.add(value))
      return;
    Operation *op = value.getDefiningOp();
    if (numbers.isExpression(op)) {
      llvm::for_each(op->getOperands(), [&](Value operand) { need(operand); });
      return;
    }
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument)
      op = argument.getOwner()->getParentOp();
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      matter(loop);
      if (value == loop.getInductionVar())
        return;
      const unsigned i =
          argument ? argument.getArgNumber() - 1 : cast<OpResult>(value).getResultNumber();
      for (Value same :
           {loop.getInitArgs()[i], Value(loop.getRegionIterArgs()[i]), loop.getYieldedValues()[i]})
        need(same);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      matter(branch);
      const unsigned i = cast<OpResult>(value).getResultNumber();
      need(branch.thenYield()->getOperand(i));
      need(branch.elseYield()->getOperand(i));
    } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
      matter(loop);
      // Its values change places; all that are numbers are computed.
      for (ValueRange values :
           {ValueRange(loop.getInits()), ValueRange(loop.getBeforeArguments()),
            ValueRange(loop.getConditionOp().getArgs()), ValueRange(loop.getAfterArguments()),
            ValueRange(loop.getYieldedValues())})
        llvm::for_each(values, [&](Value other) { need(other); });
    }
  }

  void makeSteps(Block &block) {
    Steps own;
    for (Operation &op : block) {
      for (Value result : op.getResults())
        if (numbers.has(result))
          own.made.push_back(numbers.indexOf(result));
      auto events = templates.find(&op);
      if (!controls.contains(&op) && events == templates.end())
        continue;
      own.steps.push_back({&op, {}, unsigned(own.loops.size())});
      if (events != templates.end())
        own.steps.back().events = events->second;
      // Partitions choose for their loops themselves.
      if (!isa<cta::PartitionOp>(op))
        op.walk<WalkOrder::PreOrder>([&](scf::ForOp loop) {
          if (controls.contains(loop))
            own.loops.push_back(loop);
        });
    }
    for (const Step &step : own.steps)
      if (controls.contains(step.op))
        for (Region &region : step.op->getRegions())
          if (!region.empty())
            makeSteps(region.front());
    blocks[&block] = std::move(own);
  }

  bool decide(Value condition) {
    if (Number known = numbers.of(condition))
      return *known;
    for (scf::ForOp loop : ahead)
      chooseBounds(loop);
    return numbers.decide(condition, [&] {
      const unsigned time = openConditions++;
      return pattern == 2 ? time % 2 == 0 : pattern != 0;
    });
  }

  /// How many iterations a loop does that leaves it open. Of those after the first one in three
  /// does none, in each run another one.
  int64_t chooseTrips(Operation *loop) {
    const unsigned before = openLoops++;
    if (before == 0) {
      marked[partition] = loop;
      return wanted;
    }
    if ((wanted + before) % 3 == 2)
      return 0;
    return furtherTrips++ % numbersOfTrips();
  }

  /// Chooses the bounds of a loop that are open; not yet where they follow from what was not run.
  void chooseBounds(scf::ForOp loop) {
    const Value lower = loop.getLowerBound(), upper = loop.getUpperBound(), step = loop.getStep();
    if (llvm::any_of(ValueRange{lower, upper, step},
                     [&](Value bound) { return !numbers.scalarOf(bound); }))
      return;
    if (!numbers.of(step)) {
      // Not the same for all: loops whose steps differ are told apart.
      numbers.choose(step, 1 + openLoops % 2);
      if (*numbers.of(step) <= 0)
        numbers.fix(step, 1);
    }
    if (*numbers.of(step) <= 0 || numbers.tripsOf(loop))
      return;
    const int64_t trips = chooseTrips(loop), distance = trips * *numbers.of(step);
    const bool upperIsOpen = !numbers.of(upper);
    if (upperIsOpen)
      numbers.choose(lower, 0);
    const Value last = upperIsOpen ? upper : lower;
    const int64_t number =
        upperIsOpen ? *numbers.of(lower) + distance : *numbers.of(upper) - distance;
    numbers.choose(last, number);
    // Something that it is computed from was in the way.
    if (trips != 0 && numbers.tripsOf(loop) == 0)
      numbers.fix(last, number);
  }

  LogicalResult visit(Block &block) {
    const Steps &own = blocks.find(&block)->second;
    numbers.forget(own.made);
    for (const Step &step : own.steps) {
      if (isCutShort() || !isValid)
        return success();
      ahead = ArrayRef(own.loops).drop_front(step.loopsBefore);
      LogicalResult done = emit(step.events);
      if (auto loop = dyn_cast<scf::ForOp>(step.op))
        done = visit(loop);
      else if (auto loop = dyn_cast<scf::WhileOp>(step.op))
        done = visit(loop);
      else if (auto branch = dyn_cast<scf::IfOp>(step.op))
        done = visit(branch);
      else if (auto parted = dyn_cast<cta::PartitionOp>(step.op))
        done = visit(parted);
      if (failed(done))
        return failure();
    }
    return success();
  }

  LogicalResult iterate(Operation *loop, Block &body, int64_t number, int64_t trips) {
    iteration = number;
    tripsHere = trips;
    ++iterations;
    if (loop == marked[partition]) {
      forEachBlock(
          [](ChannelRun::Partition &each) { each.program.emplace_back().kind = Event::Mark; });
      mostTrips = std::max<unsigned>(mostTrips, number + 1);
    }
    return visit(body);
  }

  LogicalResult visit(scf::ForOp loop) {
    chooseBounds(loop);
    const int64_t step = *numbers.of(loop.getStep());
    if (step <= 0) {
      isValid = false;
      return success();
    }
    const int64_t lower = *numbers.of(loop.getLowerBound()), trips = *numbers.tripsOf(loop);
    // The first loop of each partition does what was chosen for the first of all.
    if (openLoops && !marked[partition])
      marked[partition] = loop;
    const auto around = std::pair(iteration, tripsHere);
    const unsigned bits = bitsOfScalar(loop.getInductionVar().getType());
    numbers.set(loop.getRegionIterArgs(), loop.getInitArgs());
    const SmallVector<Number> first = numbers.of(loop.getRegionIterArgs());
    SmallVector<Number> before;
    for (int64_t i = 0; i < trips && !isCutShort() && isValid; ++i) {
      // Of many iterations those in the middle are alike: some periods of the rings are left out,
      // in all partitions. What grows as the iterations do grows on; uses that grow unevenly stay,
      // as nobody counts one. Not of few: partitions may do other numbers of iterations, and have
      // to agree.
      if (i == period)
        before = numbers.of(loop.getRegionIterArgs());
      if (i == 2 * period && trips > i + mostInFull)
        if (const int64_t periods = (trips - i - depth) / period; periods > 0) {
          for (auto [value, from, later] :
               llvm::zip_equal(loop.getRegionIterArgs(), first, before)) {
            const Number now = numbers.of(value);
            if (!now || !from || !later || *now - *later != *later - *from ||
                (*now - *later) % period != 0)
              continue;
            numbers.set(value, signExtended(uint64_t(*now) + uint64_t(periods) * (*now - *later),
                                            bitsOfScalar(value.getType())));
          }
          i += periods * period;
        }
      numbers.set(loop.getInductionVar(),
                  signExtended(uint64_t(lower) + uint64_t(i) * uint64_t(step), bits));
      if (failed(iterate(loop, *loop.getBody(), i, trips)))
        return failure();
      numbers.set(loop.getRegionIterArgs(), loop.getYieldedValues());
    }
    std::tie(iteration, tripsHere) = around;
    numbers.set(loop.getResults(), loop.getRegionIterArgs());
    return success();
  }

  LogicalResult visit(scf::WhileOp loop) {
    const auto around = std::pair(iteration, tripsHere);
    std::optional<int64_t> trips;
    numbers.set(loop.getBeforeArguments(), loop.getInits());
    for (int64_t i = 0;; ++i) {
      if (failed(visit(*loop.getBeforeBody())))
        return failure();
      const Value again = loop.getConditionOp().getCondition();
      if (!numbers.of(again)) {
        if (!trips)
          trips = chooseTrips(loop);
        numbers.choose(again, i < *trips ? -1 : 0);
      }
      if (!*numbers.of(again) || isCutShort() || !isValid)
        break;
      numbers.set(loop.getAfterArguments(), loop.getConditionOp().getArgs());
      if (failed(iterate(loop, *loop.getAfterBody(), i, trips.value_or(0))))
        return failure();
      numbers.set(loop.getBeforeArguments(), loop.getYieldedValues());
    }
    std::tie(iteration, tripsHere) = around;
    numbers.set(loop.getResults(), loop.getConditionOp().getArgs());
    return success();
  }

  LogicalResult visit(cta::PartitionOp parted) {
    hasParted = true;
    partition = nextPartition++;
    LogicalResult done = visit(parted.getBody().front());
    partition = 0;
    return done;
  }

  LogicalResult visit(scf::IfOp branch) {
    Block *block = decide(branch.getCondition()) ? branch.thenBlock() : branch.elseBlock();
    if (!block)
      return success();
    if (failed(visit(*block)))
      return failure();
    numbers.set(branch.getResults(), block->getTerminator()->getOperands());
    return success();
  }

  /// The number of one of `count` things; `unknown` says why where it is none.
  FailureOr<int64_t> numberIn(Operation *op, Value value, int64_t count, const char *what) {
    const Number number = numbers.of(value);
    if (number && *number >= 0 && *number < count)
      return *number;
    unknown = [=, iteration = iteration, tripsHere = tripsHere] {
      InFlightDiagnostic error = channelError(op);
      error << "has " << what;
      if (!number)
        error << " that is not known when it is compiled";
      else
        error << " " << *number << " of " << count << " in iteration " << iteration << " of "
              << tripsHere;
    };
    return failure();
  }

  LogicalResult emit(ArrayRef<Template> made) {
    for (const Template &from : made) {
      if (from.when && !decide(from.when))
        continue;
      Event event = from.event;
      Operation *op = operationOf(event);
      event.iteration = iteration;
      event.trips = tripsHere;
      if (event.kind == Event::Allocate) {
        for (const Cells &cells : from.positions) {
          event.begin = cells.begin, event.end = cells.end;
          happen(from, event);
        }
        continue;
      }
      if (from.index) {
        FailureOr<int64_t> index = numberIn(op, from.index, from.positions.size(), "a slot");
        if (failed(index))
          return failure();
        event.position = *index;
      }
      if (!from.positions.empty()) {
        const Cells &cells = from.positions[std::max(event.position, 0)];
        event.begin = cells.begin, event.end = cells.end;
      }
      if (from.signalled) {
        FailureOr<int64_t> index =
            numberIn(op, from.signalled, cells.lookup(from.barriers).size(), "an mbarrier");
        if (failed(index))
          return failure();
        event.mbarrier = firstMbarrier.lookup(from.barriers) + *index;
      }
      if (from.parity) {
        FailureOr<int64_t> parity = numberIn(op, from.parity, 2, "a parity");
        if (failed(parity))
          return failure();
        event.amount = *parity;
      }
      happen(from, event);
    }
    return success();
  }

  /// The partition, of each block, that does what is visited.
  void forEachBlock(llvm::function_ref<void(ChannelRun::Partition &)> visit) {
    for (size_t i = partition; i < partitions.size(); i += partitionCount)
      visit(partitions[i]);
  }

  /// In each block of the cluster, which has cells and mbarriers of its own.
  void happen(const Template &from, const Event &event) {
    if ((event.kind == Event::SyncBlock || event.kind == Event::SyncCluster) && !hasParted) {
      for (ChannelRun::Partition &each : partitions)
        each.program.push_back(event);
      return;
    }
    forEachBlock([&](ChannelRun::Partition &each) {
      Event &made = each.program.emplace_back(event);
      if (event.kind == Event::SyncBlock)
        made.kind = Event::SyncPartition;
      if (event.isShared) {
        const uint32_t middle = from.positions[std::max(event.position, 0)].middle;
        (each.block == 0 ? made.end : made.begin) = middle;
      }
      const uint32_t block = from.inOther ? 1 - each.block : each.block;
      made.begin += block * cellCount;
      made.end += block * cellCount;
      made.mbarrier +=
          block * (event.kind == Event::BarrierArrive || event.kind == Event::BarrierWait
                       ? uint32_t(namedWarps.size())
                       : mbarrierCount);
    });
  }

  func::FuncOp kernel;
  const Target &target;
  const uint32_t partitionCount;
  DenseMap<Operation *, SmallVector<Template, 3>> templates;
  DenseSet<Operation *> controls;
  LaunchNumbers numbers;
  DenseMap<Block *, Steps> blocks;
  DenseMap<const Operation *, SmallVector<Cells, 4>> cells; ///< by position
  DenseMap<Operation *, Scratch> scratches;
  DenseMap<Operation *, uint32_t> firstMbarrier;
  uint32_t cellCount = 0, mbarrierCount = 0, depth = 1;
  int64_t period = 2;               ///< of slots and parities, in uses
  SmallVector<uint32_t> namedWarps; ///< that come to each named barrier
  uint32_t firstTurn = 0;           ///< of these
  uint32_t blockCount;
  /// By the block in its cluster, then by the partition, of which the first is what is in none.
  std::vector<ChannelRun::Partition> partitions; ///< their programs: of a run

  // Of a run.
  unsigned wanted = 0, pattern = 0;
  /// The first loop with an open number of iterations, by the partition.
  SmallVector<Operation *, 2> marked;
  uint32_t partition = 0, nextPartition = 1; ///< that is visited
  ArrayRef<scf::ForOp> ahead;                ///< loops of the block, from what is visited on
  bool hasParted = true;                     ///< whether it is after all that partitions share
  uint32_t iteration = 0, tripsHere = 0;
};

struct CheckChannels : sectile::impl::CheckChannelsBase<CheckChannels> {
  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    FailureOr<Target> target = targetOf(kernel);
    if (failed(target))
      return signalPassFailure();
    bool isNeeded = false;
    const LogicalResult placed = checkAll(kernel, [&](Operation *op) -> LogicalResult {
      isNeeded |= isa<cta::AsyncCopyOp, cta::TensorCopyOp, cta::TensorStoreOp, cta::MbarrierWaitOp,
                      cta::MbarrierSignalOp, cta::DotStartOp, tile::NamedBarrierOp>(op);
      if (!isa<cta::AllocOp, cta::ChannelOp, cta::MbarriersOp>(op) || sharedOffset(op))
        return success();
      return op->emitOpError("has no place in shared memory yet");
    });
    if (failed(placed))
      return signalPassFailure();
    if (isNeeded && (failed(check(kernel, *target)) || failed(checkOperandsInFlight(kernel))))
      signalPassFailure();
  }

  static LogicalResult check(func::FuncOp kernel, const Target &target) {
    Programs programs(kernel, target);
    ChannelRun machine(programs.numCells(), programs.arrivals(), programs.namedBarriers());
    bool conditionsAreOpen = false;
    for (unsigned pattern = 0; pattern == 0 || (conditionsAreOpen && pattern < 3); ++pattern) {
      unsigned iterations = 0;
      programs.furtherTrips = 1;
      for (unsigned trips = 0; iterations <= mostIterations; ++trips) {
        FailureOr<ArrayRef<ChannelRun::Partition>> blocks = programs.run(trips, pattern);
        if (programs.isCutShort())
          break;
        if (failed(blocks)) {
          programs.unknown();
          return failure();
        }
        if (programs.isValid)
          if (std::optional<ChannelRun::Fault> fault = machine.run(*blocks)) {
            report(*fault, programs.ringOf(fault->at));
            return failure();
          }
        conditionsAreOpen |= programs.openConditions != 0;
        iterations += programs.iterations + 1;
        // The last iterations of a loop, in which nothing is copied ahead, are others.
        const bool repeats = programs.mostTrips < trips || machine.repeats(programs.deepest());
        if (!programs.openLoops || (repeats && programs.areLoopsVaried()))
          break;
      }
    }
    return success();
  }
};

} // namespace
