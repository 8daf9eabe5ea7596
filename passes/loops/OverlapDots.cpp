// Makes matrix products asynchronous: issues each one where it stands, and sinks its wait to the
// first use of its result or the first overwrite of its operands. Which stay in flight while the
// next iteration begins is in the loop's plan.
//
//   sums that a loop only adds to      after the loop
//   sums that a loop rescales first    in the next iteration, before that, and likewise where a
//                                      dot reads registers, before these are written
//   a result that a loop carries on    there as well, or at the end of the iteration
//   any other result                   before its first use in the iteration, and before registers
//                                      are written that the dot reads, carried on from the last one
//
// ptxas (12.8 to 13.0) follows no dot over the end of an iteration when others stay in flight at
// the wait for it: it then lets none run beside another. So rescaled sums and results carried on
// are waited for in one place.
#include "passes/loops/OverlapDots.h"
#include "ir/MmaElements.h"
#include "mlir/IR/Matchers.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/SharedMemory.h"

namespace sectile {
#define GEN_PASS_DEF_OVERLAPDOTS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;

namespace sectile {

/// Whether `value` is `sums`, or follows from it by operations whose results nothing else uses.
/// Adds these.
static bool follows(Value value, BlockArgument sums, SmallVectorImpl<Operation *> &by) {
  if (value == sums)
    return true;
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != sums.getOwner() || !op->hasTrait<OpTrait::Elementwise>() ||
      !isMemoryEffectFree(op) || !op->hasOneUse())
    return false;
  for (Value operand : op->getOperands())
    if (operand.getType() == sums.getType() && follows(operand, sums, by)) {
      by.push_back(op);
      return true;
    }
  return false;
}

/// The number of the value that a loop carries from a dot in it on, if nothing else uses the dot.
static std::optional<unsigned> carriedNumber(cta::DotOp dot) {
  auto loop = dyn_cast<scf::ForOp>(dot->getParentOp());
  if (!loop || !dot.getResult().hasOneUse())
    return std::nullopt;
  OpOperand &use = *dot.getResult().use_begin();
  return use.getOwner() == loop.getBody()->getTerminator() ? std::optional(use.getOperandNumber())
                                                           : std::nullopt;
}

std::optional<CarriedSums> carriedSums(cta::DotOp dot) {
  const std::optional<unsigned> number = carriedNumber(dot);
  if (!number)
    return std::nullopt;
  CarriedSums sums{*number, {}};
  BlockArgument carried = cast<scf::ForOp>(dot->getParentOp()).getRegionIterArg(*number);
  return carried.hasOneUse() && follows(dot.getAcc(), carried, sums.rescaling) ? std::optional(sums)
                                                                               : std::nullopt;
}

bool beginsAsZeros(cta::DotOp dot) {
  return matchPattern(dot.getAcc(), m_AnyZeroFloat()) || matchPattern(dot.getAcc(), m_Zero());
}

namespace {

/// How a dot's operand in registers is made of a tile: by operations of its block that nothing else
/// uses, in order; none where the tile is the operand.
struct Packing {
  Value from;
  SmallVector<Operation *, 2> ops;

  /// Has them, and the dot, take another value in place of that tile.
  void take(Value other, Operation *dot) const {
    for (Operation *op : ops)
      op->replaceUsesOfWith(from, other);
    dot->replaceUsesOfWith(from, other);
  }
};

/// That of a tile of the type of the dot's sums.
std::optional<Packing> packingOf(Value operand, cta::DotOp dot) {
  Packing packing;
  llvm::SetVector<Operation *> ops;
  SmallVector<Value> work{operand};
  auto loop = cast<scf::ForOp>(dot->getParentOp());
  while (!work.empty()) {
    const Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (value != operand && type && type.getElementType() == dot.getType().getElementType()) {
      if (packing.from && packing.from != value)
        return std::nullopt;
      packing.from = value;
    } else if (value == operand || !loop.isDefinedOutsideOfLoop(value)) {
      if (!op || op->getBlock() != dot->getBlock() || !isMemoryEffectFree(op) ||
          !op->hasTrait<OpTrait::Elementwise>())
        return std::nullopt;
      if (ops.insert(op))
        llvm::append_range(work, op->getOperands());
    }
  }
  auto isAmongThem = [&](Operation *user) { return ops.contains(user); };
  for (Operation *op : ops)
    if (op == operand.getDefiningOp() ? !op->hasOneUse()
                                      : !llvm::all_of(op->getUsers(), isAmongThem))
      return std::nullopt;
  packing.ops.assign(ops.begin(), ops.end());
  llvm::sort(packing.ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return packing.from ? std::optional(std::move(packing)) : std::nullopt;
}

} // namespace

/// The same, or the operand itself where a loop's body computes it in another way.
static std::optional<Packing> computedOperandOf(cta::DotOp dot) {
  if (std::optional<Packing> packing = packingOf(dot.getA(), dot))
    return packing;
  Operation *op = dot.getA().getDefiningOp();
  return op && op->getBlock() == dot->getBlock() ? std::optional(Packing{dot.getA(), {}})
                                                 : std::nullopt;
}

bool isPacked(cta::DotOp dot) { return packingOf(dot.getA(), dot).has_value(); }

Value computedBefore(cta::DotOp dot) {
  if (!isa<RankedTensorType>(dot.getA().getType()))
    return {};
  const std::optional<Packing> packing = computedOperandOf(dot);
  return packing ? packing->from : Value();
}

SmallVector<cta::DotOp> asynchronousDots(scf::ForOp loop, const Target &target) {
  SmallVector<cta::DotOp> dots = allIn<cta::DotOp>(loop);
  const bool areAll = llvm::all_of(dots, [&](cta::DotOp dot) {
    return dot->getBlock() == loop.getBody() && isAsynchronous(dot, target);
  });
  return areAll ? dots : SmallVector<cta::DotOp>();
}

namespace {

/// What a dot reads, and which use of its ring that is.
class ReadSlot {
public:
  explicit ReadSlot(Value operand) : owner(originOf(operand).owner), use(useOf(operand)) {
    if (auto channel = dyn_cast_if_present<cta::ChannelOp>(owner))
      depth = channel.getType().getDepth();
  }
  bool isKnown() const { return owner; }

  bool mayBeWrittenBy(Operation *op) const {
    return llvm::any_of(bufferAccesses(op), [&](const BufferAccess &access) {
      if (access.kind == BufferAccess::Read || access.origin.owner != owner)
        return false;
      const std::optional<LinearCount> written = useOf(access.origin.buffer);
      return !written || !use || !use->base || written->base != use->base ||
             written->offset % depth == use->offset % depth;
    });
  }

private:
  /// Which use of its ring a buffer is.
  static std::optional<LinearCount> useOf(Value buffer) {
    Operation *op = originOf(buffer).buffer.getDefiningOp();
    if (auto acquire = dyn_cast_if_present<cta::AcquireOp>(op))
      return linearCount(acquire.getSlot());
    if (auto wait = dyn_cast_if_present<cta::WaitOp>(op))
      return linearCount(wait.getSlot());
    return std::nullopt;
  }

  Operation *owner;
  std::optional<LinearCount> use;
  unsigned depth = 1;
};

/// Whether what a dot reads may be written between it and another operation of its block.
bool isOverwritten(cta::DotOp dot, Value operand, Operation *until) {
  const ReadSlot slot(operand);
  if (!slot.isKnown())
    return true;
  for (Operation *op = dot->getNextNode(); op != until; op = op->getNextNode())
    if (anyIn(op, [&](Operation *inside) { return slot.mayBeWrittenBy(inside); }))
      return true;
  return false;
}

/// The channels whose slots a dot reads.
template <class Dot> SmallVector<cta::ChannelOp, 2> channelsOf(Dot dot) {
  SmallVector<cta::ChannelOp, 2> channels;
  for (Value operand : {dot.getA(), dot.getB()})
    if (isa<cta::BufferType>(operand.getType()))
      if (auto channel = dyn_cast_if_present<cta::ChannelOp>(originOf(operand).owner))
        channels.push_back(channel);
  return channels;
}

struct OverlapDots : sectile::impl::OverlapDotsBase<OverlapDots> {
  /// A dot to be in flight.
  struct Flight {
    cta::DotOp dot;
    std::optional<CarriedSums> sums;     ///< else a result that the loop carries on
    unsigned number = 0;                 ///< of what the loop carries
    std::optional<Packing> packing = {}; ///< of its operand, in registers
    cta::DotStartOp start = {};

    /// Whether the next iteration has something to do before it may start the dot again.
    bool mustWaitInNextIteration() const { return sums && (!sums->rescaling.empty() || packing); }
  };

  void runOnOperation() override {
    FailureOr<Target> found = targetOf(getOperation());
    if (failed(found))
      return signalPassFailure();
    target = *found;
    for (scf::ForOp loop : allIn<scf::ForOp>(getOperation())) {
      overlap(loop);
      // Beside dots in flight over the end of an iteration ptxas follows no others. Where threads
      // copy, registers hold no results that wait, and it adds waits of its own.
      if (loop.getBody()->getOps<cta::DotStartOp>().empty() && isFilledByEngine(loop))
        overlapWithin(*loop.getBody());
    }
    getOperation().walk([](cta::DotOp dot) { dot->removeAttr(inFlightAttr); });
  }

  /// Whether the copy engine fills, in the loop, what a dot of it reads.
  static bool isFilledByEngine(scf::ForOp loop) {
    const auto copies = allIn<cta::TensorCopyBlockOp>(loop);
    return llvm::any_of(loop.getBody()->getOps<cta::DotOp>(), [&](cta::DotOp dot) {
      return llvm::any_of(channelsOf(dot), [&](Operation *channel) {
        return llvm::any_of(copies, [&](cta::TensorCopyBlockOp copy) {
          return originOf(copy.getBuffer()).owner == channel;
        });
      });
    });
  }

  /// A dot that its own iteration waits for.
  struct ShortFlight {
    cta::DotOp dot;
    SmallVector<cta::DotOp, 1> ahead = {}; ///< those that it goes on adding to, unfinished
    Operation *until;                      ///< before which it is waited for
    std::optional<Packing> packing = {};   ///< what writes the registers that the dot reads
  };

  /// Where a dot has to be complete: whatever needs its sums comes after it, and what is made of
  /// the registers that it reads, for the next iteration.
  static ShortFlight shortFlightOf(cta::DotOp dot) {
    Block *block = dot->getBlock();
    ShortFlight flight{.dot = dot, .until = block->getTerminator()};
    auto endBefore = [&](Operation *op) {
      op = block->findAncestorOpInBlock(*op);
      if (op->isBeforeInBlock(flight.until))
        flight.until = op;
    };
    for (Operation *user : dot->getUsers())
      endBefore(user);
    auto read = dyn_cast<BlockArgument>(dot.getA());
    auto loop = cast<scf::ForOp>(block->getParentOp());
    if (!read || read.getOwner() != block || !isa<RankedTensorType>(read.getType()))
      return flight;
    const Value next = loop.getTiedLoopYieldedValue(read)->get();
    Operation *last = next.getDefiningOp();
    if (!last || last->getBlock() != block || !dot->isBeforeInBlock(last))
      return flight;
    std::optional<Packing> packing = packingOf(next, dot);
    if (!packing || !dot->isBeforeInBlock(packing->ops.front())) {
      endBefore(last);
      return flight;
    }
    endBefore(packing->ops.front());
    // What it packs is computed beside the dot, if it can be.
    if (Operation *packed = packing->from.getDefiningOp();
        packed && packed->getBlock() == block && packed->isBeforeInBlock(flight.until))
      flight.packing = std::move(packing);
    return flight;
  }

  /// Whether there is something else for threads or matrix units to do until a dot is complete.
  bool hasCompany(const ShortFlight &flight) const {
    for (Operation *op = flight.dot->getNextNode(); op != flight.until; op = op->getNextNode())
      if (isa<cta::LocalStoreOp>(op) ||
          (!op->hasTrait<OpTrait::ConstantLike>() &&
           !isa<cta::LocalLoadOp, tile::ExpandDimsOp, tile::BroadcastOp>(op) &&
           llvm::any_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>)))
        return true;
    return false;
  }

  /// Dots whose results only the next one takes, to add to: matrix units keep to the order in which
  /// they were started, so that nobody has to wait between them.
  SmallVector<cta::DotOp, 1> sumsAhead(cta::DotOp dot) const {
    SmallVector<cta::DotOp, 1> ahead;
    for (auto before = dot.getAcc().getDefiningOp<cta::DotOp>();
         before && before->getBlock() == dot->getBlock() && before->hasOneUse() &&
         isAsynchronous(before, target) && !readsByHand(before) &&
         before.getInstruction() == dot.getInstruction() &&
         isa<cta::BufferType>(before.getA().getType());
         before = before.getAcc().getDefiningOp<cta::DotOp>())
      ahead.insert(ahead.begin(), before);
    return ahead;
  }

  /// Whether nothing that a dot reads may be written before another operation of its block.
  static bool keepsOperands(cta::DotOp dot, Operation *until) {
    return llvm::none_of(ValueRange{dot.getA(), dot.getB()}, [&](Value operand) {
      return isa<cta::BufferType>(operand.getType()) && isOverwritten(dot, operand, until);
    });
  }

  bool canFly(const ShortFlight &flight) const {
    if (!hasCompany(flight))
      return false;
    auto keeps = [&](cta::DotOp dot) { return keepsOperands(dot, flight.until); };
    if (keeps(flight.dot) && llvm::all_of(flight.ahead, keeps))
      return true;
    flight.dot->emitRemark(
        "this dot runs beside no other work: what it reads is overwritten before "
        "its result is used");
    return false;
  }

  cta::DotStartOp start(cta::DotOp dot) {
    OpBuilder builder(dot);
    return cta::DotStartOp::create(
        builder, dot.getLoc(), cta::InFlightType::get(&getContext(), dot.getType()), dot.getA(),
        dot.getB(), dot->getOperand(2), dot.getInstructionAttr(), dot.getPrecision());
  }

  /// Waits for dots of a block before their first use in it: for each alone, so that those that
  /// were started after it stay in flight.
  void overlapWithin(Block &block) {
    SmallVector<ShortFlight> flights;
    DenseSet<Operation *> ahead;
    const auto dots = llvm::to_vector(block.getOps<cta::DotOp>());
    for (cta::DotOp dot : llvm::reverse(dots)) {
      if (!isAsynchronous(dot, target) || readsByHand(dot) || ahead.contains(dot))
        continue;
      ShortFlight flight = shortFlightOf(dot);
      flight.ahead = sumsAhead(dot);
      if (!canFly(flight))
        continue;
      ahead.insert(flight.ahead.begin(), flight.ahead.end());
      // Dots are complete in the order in which they were started.
      if (!flights.empty() && flights.back().until->isBeforeInBlock(flight.until) &&
          !flight.packing)
        flight.until = flights.back().until;
      flights.push_back(std::move(flight));
    }
    for (ShortFlight &flight : llvm::reverse(flights)) {
      SmallVector<cta::DotStartOp, 2> starts;
      for (cta::DotOp before : flight.ahead) {
        starts.push_back(start(before));
        before.getResult().replaceAllUsesWith(starts.back().getResult());
        before.erase();
      }
      cta::DotOp dot = flight.dot;
      starts.push_back(start(dot));
      cta::DotStartOp started = starts.back();
      OpBuilder builder(flight.until);
      const Value before = flight.packing ? flight.packing->from : Value();
      auto wait = cta::DotWaitOp::create(builder, dot.getLoc(), dot.getType(),
                                         before ? before.getType() : Type(), started, before);
      if (before)
        flight.packing->take(wait.getAfter(), started);
      dot.getResult().replaceAllUsesWith(wait.getSums());
      dot.erase();
      for (auto release : llvm::to_vector(block.getOps<cta::ReleaseOp>()))
        if (release->isBeforeInBlock(wait) &&
            llvm::any_of(starts, [&](cta::DotStartOp each) { return reads(each, release); }))
          release->moveAfter(wait);
    }
    // An inner loop may leave a dot in flight, too: after all that was started before the loop.
    unsigned started = 0;
    DenseMap<Value, unsigned> numbers;
    for (Operation &op : block) {
      if (auto wait = dyn_cast<cta::DotWaitOp>(op))
        wait.setPending(started - numbers.lookup(wait.getDot()));
      started += isa<cta::DotStartOp>(op);
      for (Value result : op.getResults())
        if (isa<cta::InFlightType>(result.getType()))
          numbers[result] = started;
    }
  }

  /// Whether the program itself says when what a dot reads is handed back.
  static bool readsByHand(cta::DotOp dot) {
    return llvm::any_of(channelsOf(dot),
                        [](cta::ChannelOp channel) { return channel.getByHand(); });
  }

  std::optional<Flight> flightOf(cta::DotOp dot) const {
    const std::optional<unsigned> number = carriedNumber(dot);
    if (!number || !isAsynchronous(dot, target) || readsByHand(dot))
      return std::nullopt;
    Flight flight{dot, carriedSums(dot), *number};
    auto loop = cast<scf::ForOp>(dot->getParentOp());
    if (flight.sums ? !dot->hasAttr(inFlightAttr)
                    : !loop.isDefinedOutsideOfLoop(dot.getAcc()) || !beginsAsZeros(dot) ||
                          !keepsOperands(dot, loop.getBody()->getTerminator()))
      return std::nullopt;
    if (!isa<RankedTensorType>(dot.getA().getType()) || loop.isDefinedOutsideOfLoop(dot.getA()))
      return flight;
    flight.packing = computedOperandOf(dot);
    return flight.sums && flight.packing ? std::optional(std::move(flight)) : std::nullopt;
  }

  /// Whether the next iteration computes an operand beside a dot in flight, and no other dot.
  bool isBesideItsOperand(const Flight &flight) const {
    if (!flight.packing)
      return false;
    Operation *computes = Value(flight.packing->from).getDefiningOp();
    Operation *dot = flight.dot;
    return computes && computes->getBlock() == dot->getBlock() &&
           asynchronousDots(cast<scf::ForOp>(dot->getParentOp()), target).size() == 1;
  }

  /// Whether the loop counts the uses of what is released, so that it can be one of them
  /// afterwards.
  static bool isCountedBy(scf::ForOp loop, cta::ReleaseOp release) {
    const std::optional<LinearCount> use = linearCount(release.getSlot());
    auto counted = use ? dyn_cast_if_present<BlockArgument>(use->base) : BlockArgument();
    return counted && counted.getOwner() == loop.getBody();
  }

  void overlap(scf::ForOp loop) {
    const auto releases = llvm::to_vector(loop.getBody()->getOps<cta::ReleaseOp>());
    auto staysBehind = [&](cta::DotOp dot) {
      return llvm::any_of(releases, [&](cta::ReleaseOp release) {
        return reads(dot, release) && !isCountedBy(loop, release);
      });
    };
    SmallVector<Flight> flights;
    for (auto dot : loop.getBody()->getOps<cta::DotOp>())
      if (std::optional<Flight> flight = flightOf(dot); flight && !staysBehind(dot))
        flights.push_back(std::move(*flight));
      else if (dot->hasAttr(inFlightAttr))
        dot->emitRemark("this dot is complete before the next iteration: nothing there says when "
                        "what it reads may be overwritten");
    // Sums that are needed so soon are late only beside another dot in flight, or the computation
    // of what their dot multiplies next.
    const bool isCarriedOn = llvm::any_of(flights, [](const Flight &f) { return !f.sums; });
    llvm::erase_if(flights, [&](const Flight &f) {
      return f.mustWaitInNextIteration() && !isCarriedOn && !isBesideItsOperand(f);
    });
    if (flights.empty())
      return;
    bool isAddedTo = false;
    Operation *last = nullptr;
    for (Flight &flight : flights) {
      const bool inNextIteration = flight.mustWaitInNextIteration();
      isAddedTo |= flight.sums && !inNextIteration;
      start(loop, flight);
      if (inNextIteration)
        last = waitInNext(loop, flight);
    }
    for (Flight &flight : flights)
      if (!flight.sums)
        waitFor(loop, flight, last);
    // Of each dot the latest is in flight, the one before has read its operands by the end of an
    // iteration.
    if (isAddedTo) {
      cta::DotStartOp latest = flights.back().start;
      OpBuilder builder(latest.getContext());
      builder.setInsertionPointAfter(latest);
      last = cta::DotsWaitOp::create(builder, latest.getLoc(), flights.size());
    }
    for (cta::ReleaseOp release : releases)
      if (llvm::any_of(flights,
                       [&](Flight &flight) { return flight.sums && reads(flight.start, release); }))
        releaseLater(loop, release, last);
  }

  /// Whether a dot reads what is released.
  template <class Dot> static bool reads(Dot dot, cta::ReleaseOp release) {
    return llvm::any_of(channelsOf(dot), [&](cta::ChannelOp channel) {
      return llvm::is_contained(release.getChannels(), channel.getResult());
    });
  }

  // Releases what the dot of the iteration before has read, once that is complete, and after the
  // loop what its last dot read.
  static void releaseLater(scf::ForOp loop, cta::ReleaseOp release, Operation *complete) {
    const LinearCount use = *linearCount(release.getSlot());
    release->moveAfter(complete);
    release.setPrevious(true);
    Operation *last = loop;
    while (isa_and_present<cta::DotWaitOp>(last->getNextNode()))
      last = last->getNextNode();
    OpBuilder builder(loop.getContext());
    builder.setInsertionPointAfter(last);
    Value end = loop.getTiedLoopResult(cast<BlockArgument>(use.base));
    if (use.offset)
      end = arith::AddIOp::create(
          builder, release.getLoc(), end,
          arith::ConstantIntOp::create(builder, release.getLoc(), use.offset, 32));
    cta::ReleaseOp::create(builder, release.getLoc(), release.getChannels(), end,
                           /*previous=*/true);
  }

  void start(scf::ForOp loop, Flight &flight) {
    cta::DotOp dot = flight.dot;
    const Location loc = dot.getLoc();
    auto inFlight = cta::InFlightType::get(loop->getContext(), dot.getType());
    if (flight.sums) {
      OpBuilder builder(loop);
      OpOperand &init = loop.getInitArgsMutable()[flight.number];
      init.set(cta::DotBeginOp::create(builder, loc, inFlight, init.get()));
      loop.getRegionIterArg(flight.number).setType(inFlight);
      Value result = loop->getResult(flight.number);
      result.setType(inFlight);
      builder.setInsertionPointAfter(loop);
      auto wait = cta::DotWaitOp::create(builder, loc, inFlight.getTile(), Type(), result, Value());
      result.replaceAllUsesExcept(wait.getSums(), wait);
    }
    flight.start = start(dot);
    if (flight.packing)
      flight.start->setAttr(cta::ownRegistersAttr, UnitAttr::get(loop->getContext()));
    dot.getResult().replaceAllUsesWith(flight.start.getResult());
    dot.erase();
  }

  // Waits for a result that the loop carries on, after another wait or else at the end.
  static void waitFor(scf::ForOp loop, Flight &flight, Operation *after) {
    Operation *terminator = loop.getBody()->getTerminator();
    OpBuilder builder(terminator);
    if (after)
      builder.setInsertionPointAfter(after);
    Value beside = after ? Value() : computedBeside(loop, flight);
    auto wait =
        cta::DotWaitOp::create(builder, flight.start.getLoc(), flight.start.getType().getTile(),
                               beside ? beside.getType() : Type(), flight.start, beside);
    terminator->setOperand(flight.number, wait.getSums());
    if (beside)
      terminator->replaceUsesOfWith(beside, wait.getAfter());
    for (auto release : llvm::to_vector(loop.getBody()->getOps<cta::ReleaseOp>()))
      if (reads(flight.start, release) && release->isBeforeInBlock(wait))
        release->moveAfter(wait);
    useFirst(loop, flight.number);
  }

  // What is carried on beside the result, and computed by then: nothing may put it off until the
  // dot is done.
  static Value computedBeside(scf::ForOp loop, Flight &flight) {
    const unsigned bits = cta::elementBits(flight.start.getType().getTile());
    for (Value value : loop.getYieldedValues())
      if (Operation *op = value.getDefiningOp();
          op && op->getBlock() == loop.getBody() && flight.start->isBeforeInBlock(op) &&
          isa<RankedTensorType>(value.getType()) && op->hasTrait<OpTrait::Elementwise>() &&
          op->hasOneUse() && cta::elementBits(value.getType()) == bits)
        return value;
    return {};
  }

  // What an iteration first computes from the result, it does before all else, if it takes no
  // longer than a move: the next result may take its registers then, and nothing has to be moved.
  static void useFirst(scf::ForOp loop, unsigned number) {
    BlockArgument carried = loop.getRegionIterArg(number);
    if (!carried.hasOneUse())
      return;
    Operation *first = *carried.user_begin();
    if (first->getBlock() == loop.getBody() &&
        isa<arith::MulFOp, arith::AddFOp, arith::SubFOp>(first) &&
        llvm::all_of(first->getOperands(), [&](Value operand) {
          return operand == carried || loop.isDefinedOutsideOfLoop(operand);
        }))
      first->moveBefore(loop.getBody(), loop.getBody()->begin());
  }

  // Waits for the sums before they are rescaled, which is put off until the dot needs it. Only then
  // may registers be written that the dot in flight reads.
  static Operation *waitInNext(scf::ForOp loop, Flight &flight) {
    Value carried = loop.getRegionIterArg(flight.number);
    SmallVector<Operation *> after(flight.sums->rescaling.begin(), flight.sums->rescaling.end());
    Value before;
    if (flight.packing) {
      before = flight.packing->from;
      llvm::append_range(after, flight.packing->ops);
    }
    for (Operation *op : after)
      op->moveBefore(flight.start);
    OpBuilder builder(after.empty() ? flight.start : after.front());
    auto wait =
        cta::DotWaitOp::create(builder, flight.start.getLoc(), flight.start.getType().getTile(),
                               before ? before.getType() : Type(), carried, before);
    carried.replaceAllUsesExcept(wait.getSums(), wait);
    if (before)
      flight.packing->take(wait.getAfter(), flight.start);
    return wait;
  }

  Target target;
};

} // namespace

} // namespace sectile
