// Software pipelining: loads of a loop that go to shared memory are issued iterations ahead.
//
//   prologue: issue uses 0 … depth-2           issue: addresses of that iteration, copies, commit
//   loop, use i: wait for use i; issue use i + depth-1; compute
//
// Uses beyond the last iteration are committed too, with every copy masked off, so that the number
// of uses in flight is the same at each wait.
//
// Where a target has no asynchronous copies, registers carry the data: the loads of the next use
// are issued before an iteration computes, and stored into the channel after it.
//
// Loads that no buffer is made for stay in registers: the loop carries what the load of its next
// iteration gives.
//
// With one buffer, as for a loop of at most one iteration, and where a producer partition has the
// copies made, which runs ahead by itself:
//
//   loop, use i: issue use i; wait for use i; compute
//
// Not by `scf::pipelineForLoop`: it carries what one stage computes and another needs through every
// stage between, in registers, an address or a use as often as the ring has slots. Here addresses
// are computed once more from the induction variable, and a use is a number plus a constant. It
// also predicates whole operations, where a copy beyond the last iteration has to write zeros that
// somebody waits for.
#include "passes/loops/FetchAhead.h"
#include "ir/tile/Overflow.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "passes/Kernel.h"
#include "passes/analysis/MemoryOrder.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/loops/LoopHints.h"
#include "passes/loops/LoopPlan.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace sectile {

SmallVector<Operation *> FetchedLoad::readers() const {
  SmallVector<Operation *> readers;
  for (const BufferUse &use : uses)
    readers.push_back(use.operand->getOwner());
  llvm::append_range(readers, takers());
  return readers;
}

SmallVector<Operation *> FetchedLoad::takers() const {
  return otherUsersOf(load->getResult(0), uses);
}

namespace {

bool isIntegerDivision(Operation *op) {
  return isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::CeilDivSIOp,
             arith::CeilDivUIOp, arith::FloorDivSIOp>(op);
}

/// Gives these users of a load the tile from its buffer instead, in the layouts that they convert
/// it to. The reads are where `builder` is.
SmallVector<Operation *> readTile(OpBuilder &builder, Operation *load, ArrayRef<Operation *> users,
                                  Value buffer) {
  DenseMap<Type, cta::LocalLoadOp> tiles;
  SmallVector<Operation *> reads;
  auto tileOf = [&](Type type) {
    cta::LocalLoadOp &tile = tiles[type];
    if (!tile) {
      tile = cta::LocalLoadOp::create(builder, load->getLoc(), type, buffer);
      reads.push_back(tile);
    }
    return tile;
  };
  for (OpOperand &use : llvm::make_early_inc_range(load->getUses())) {
    if (!llvm::is_contained(users, use.getOwner()))
      continue;
    auto convert = dyn_cast<cta::ConvertLayoutOp>(use.getOwner());
    cta::LocalLoadOp tile =
        tileOf(convert ? Type(convert.getType()) : load->getResult(0).getType());
    if (convert)
      convert.replaceAllUsesWith(tile.getResult());
    else
      use.set(tile);
  }
  return reads;
}

/// Moves an operation of a loop's body, and those that only give its tile another shape, to before
/// what computes with them.
void sink(Operation *op) {
  SmallVector<Operation *> moved{op};
  Operation *user = nullptr;
  for (unsigned i = 0; i < moved.size(); ++i)
    for (Operation *next : moved[i]->getUsers()) {
      next = op->getBlock()->findAncestorOpInBlock(*next);
      if (isa<tile::ExpandDimsOp, tile::BroadcastOp>(next)) {
        if (!llvm::is_contained(moved, next))
          moved.push_back(next);
      } else if (!user || next->isBeforeInBlock(user)) {
        user = next;
      }
    }
  if (user)
    for (Operation *each : moved)
      each->moveBefore(user);
}

Value numberIn(OpBuilder &builder, scf::ForOp loop, Type type, int64_t value) {
  return arith::ConstantOp::create(builder, loop.getLoc(), builder.getIntegerAttr(type, value));
}

/// Whether the loop has any iteration.
Value isEntered(OpBuilder &builder, scf::ForOp loop) {
  auto less = loop.getUnsignedCmp() ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
  return builder.createOrFold<arith::CmpIOp>(loop.getLoc(), less, loop.getLowerBound(),
                                             loop.getUpperBound());
}

/// Whether the iteration `count` after that of `iv`, which is in the loop, is in it, too. Nothing
/// overflows near the ends of the type: as an unsigned number the distance to the end is exact.
Value isInside(OpBuilder &builder, scf::ForOp loop, Value iv, unsigned count) {
  Location loc = loop.getLoc();
  Type type = iv.getType();
  unsigned bits =
      type.isIndex() ? IndexType::kInternalStorageBitWidth : type.getIntOrFloatBitWidth();
  auto most = builder.getIntegerAttr(type, APInt::getMaxValue(bits).udiv(count));
  Value left = builder.createOrFold<arith::SubIOp>(loc, loop.getUpperBound(), iv);
  Value distance = builder.createOrFold<arith::MulIOp>(loc, loop.getStep(),
                                                       numberIn(builder, loop, type, count));
  Value inside =
      builder.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::ugt, left, distance);
  Value fits =
      builder.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::ule, loop.getStep(),
                                          builder.createOrFold<arith::ConstantOp>(loc, most));
  return builder.createOrFold<arith::AndIOp>(loc, inside, fits);
}

/// Lets a load, if it is one, read nothing where not `inside`.
void narrow(Operation *op, Value inside) {
  if (constantInt(inside).value_or(0))
    return;
  OpBuilder builder(op);
  auto both = [&](Value condition, Value more) {
    return condition ? arith::AndIOp::create(builder, op->getLoc(), condition, more).getResult()
                     : more;
  };
  if (auto block = dyn_cast<tile::LoadBlockOp>(op)) {
    block.getWhenMutable().assign(both(block.getWhen(), inside));
  } else if (auto load = dyn_cast<tile::LoadOp>(op)) {
    if (auto type = dyn_cast<RankedTensorType>(load.getPtr().getType())) {
      auto mask = RankedTensorType::get(type.getShape(), inside.getType(), type.getEncoding());
      inside = tile::SplatOp::create(builder, op->getLoc(), mask, inside);
    }
    load.getMaskMutable().assign(both(load.getMask(), inside));
  }
}

/// Lets an operation that addresses follow from be done though its loop, or a branch in it, might
/// not do it: there, where not `inside`, it reads nothing.
void computeWhere(Operation *op, Value inside) {
  op->walk([&](Operation *inner) {
    if (isIntegerDivision(inner))
      inner->setAttr(computedAheadAttr, UnitAttr::get(inner->getContext()));
    narrow(inner, inside);
  });
}

/// The branches of a loop's body that a load is in, outermost first; none where it is in another
/// loop there.
SmallVector<scf::IfOp> branchesAround(scf::ForOp loop, Operation *load) {
  SmallVector<scf::IfOp> branches;
  for (Operation *around = load->getParentOp(); around != loop; around = around->getParentOp()) {
    auto branch = dyn_cast<scf::IfOp>(around);
    if (!branch)
      return {};
    branches.push_back(branch);
  }
  return {branches.rbegin(), branches.rend()};
}

/// The one of a branch's two blocks that an operation is in.
Block *sideOf(scf::IfOp branch, Operation *op) {
  Block *then = branch.thenBlock();
  return then->findAncestorOpInBlock(*op) ? then : branch.elseBlock();
}

/// A loop that carries these values besides what it does, in place of the loop.
scf::ForOp withCarried(OpBuilder &builder, scf::ForOp loop, ValueRange more) {
  SmallVector<Value> inits(loop.getInitArgs());
  llvm::append_range(inits, more);
  auto wider = scf::ForOp::create(builder, loop.getLoc(), loop.getLowerBound(),
                                  loop.getUpperBound(), loop.getStep(), inits);
  wider.setUnsignedCmp(loop.getUnsignedCmp());
  wider->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  wider.getRegion().takeBody(loop.getRegion());
  for (Value init : more)
    wider.getBody()->addArgument(init.getType(), loop.getLoc());
  loop.replaceAllUsesWith(wider.getResults().take_front(loop.getNumResults()));
  loop.erase();
  return wider;
}

/// What a loop computes the addresses and masks of some loads from: operations of its body, in
/// order, and the numbers of the values it carries. Of a load in branches also what decides whether
/// it is made, and operations of these branches.
class AddressSlice {
public:
  explicit AddressSlice(scf::ForOp loop) : loop(loop), body(loop.getBody()), blocks{body} {}

  void add(Operation *load) {
    for (scf::IfOp branch : branchesAround(loop, load)) {
      blocks.insert(sideOf(branch, load));
      need(branch.getCondition());
    }
    // What it gives where the mask is false is no part of its address.
    Value other;
    if (auto byPointers = dyn_cast<tile::LoadOp>(load))
      other = byPointers.getOther();
    for (Value operand : load->getOperands())
      if (operand != other)
        need(operand);
  }
  void add(const FetchedLoad &fetched) {
    add(fetched.load);
    if (!fetched.tensor)
      return;
    llvm::for_each(fetched.tensor->coordinates, [&](Value coordinate) { need(coordinate); });
    if (fetched.tensor->segment)
      need(fetched.tensor->segment->first);
  }
  SmallVector<Operation *> inOrder() const { return inOrder(body); }
  SmallVector<Operation *> inOrder(Block *block) const {
    SmallVector<Operation *> sorted =
        llvm::filter_to_vector(ops, [&](Operation *op) { return op->getBlock() == block; });
    llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    return sorted;
  }
  ArrayRef<Operation *> operations() const { return ops.getArrayRef(); }
  ArrayRef<unsigned> carriedNumbers() const { return carried.getArrayRef(); }
  bool contains(Operation *op) const { return ops.contains(op); }

  /// Computes it for another iteration, which may not be `inside` the loop.
  void computeAhead(OpBuilder &builder, IRMapping &map, Value inside) const {
    for (Operation *op : inOrder()) {
      Operation *clone = builder.clone(*op, map);
      computeWhere(clone, inside);
    }
  }

private:
  void need(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value);
        argument && argument.getOwner() == loop.getBody()) {
      if (argument == loop.getInductionVar())
        return;
      unsigned number = argument.getArgNumber() - 1;
      if (carried.insert(number))
        need(loop.getYieldedValues()[number]);
      return;
    }
    Operation *owner = value.getDefiningOp();
    if (!owner)
      owner = value.getParentBlock()->getParentOp();
    Operation *op = owner;
    while (op && !blocks.contains(op->getBlock()))
      op = op->getParentOp();
    if (!op || !ops.insert(op))
      return;
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (!op->isAncestor(operand.getParentBlock()->getParentOp()))
          need(operand);
    });
  }

  scf::ForOp loop;
  Block *body;              ///< of the loop, also when that has been replaced
  DenseSet<Block *> blocks; ///< whose operations it has
  llvm::SetVector<Operation *> ops;
  llvm::SetVector<unsigned> carried;
};

/// Whether loads may not move ahead of an operation. Barriers of partitions are part of a schedule
/// that the kernel states, an assertion may be what makes a load valid, and a loop with a volatile
/// load may go on because of what others write.
bool holdsLoadsBack(Operation *op) {
  return memoryOrderOf(op) || isVolatileLoad(op) ||
         isa<tile::NamedBarrierOp, cta::MbarrierSignalOp, cta::MbarrierWaitOp, cta::AssertOp>(op);
}

/// Whether a loop may write what a load of it reads, in the same iteration or in another.
bool mayBeWritten(scf::ForOp loop, Operation *load, AddressAnalysis &addresses) {
  GlobalAccess read = *addresses.accessOf(load);
  EndedIterations next = addresses.bitOf(loop);
  return anyIn(loop, [&](Operation *op) {
    std::optional<GlobalAccess> access = addresses.accessOf(op);
    return access && access->writes &&
           (addresses.mayOverlap(*access, read, 0) || addresses.mayOverlap(*access, read, next) ||
            addresses.mayOverlap(read, *access, next));
  });
}

/// Whether an operation with all in it can be done for an iteration that may be beyond a loop's
/// last, where loads are masked off: loops in it end there too, because they have counts, and steps
/// from outside of the loop. They load scalars only, for tiles would be loaded twice.
bool canRunAhead(scf::ForOp loop, Operation *op) {
  return !anyIn(op, [&](Operation *inner) {
    if (isLoad(inner))
      return isVolatileLoad(inner) ||
             (inner != op && isa<RankedTensorType>(inner->getResult(0).getType()));
    if (auto nested = dyn_cast<scf::ForOp>(inner))
      return !loop.isDefinedOutsideOfLoop(nested.getStep());
    return !isa<scf::IfOp>(inner) &&
           (!isMemoryEffectFree(inner) || isa<cta::DotOp, scf::WhileOp>(inner));
  });
}

class Pipeline {
public:
  explicit Pipeline(const LoopPlan &plan)
      : loop(plan.loop), producer(plan.producer), depth(plan.depth),
        ahead(producer == Producer::Copies      ? depth - 1
              : producer == Producer::Registers ? 1
                                                : 0),
        slice(loop), from(plan.continued) {
    if (ahead > 0)
      for (const FetchedLoad &load : plan.loads)
        slice.add(load);
    makeGroups(plan.loads);
  }

  SmallVector<Ring> run() {
    OpBuilder builder(loop);
    makeChannels(builder);
    carryAhead(builder, prologue(builder));
    steadyState();
    SmallVector<Ring> rings;
    const ValueRange counts = loop.getResults().take_back(numCounters);
    for (const Group &group : groups) {
      release(group);
      rings.push_back({group.channels, counts[group.counter]});
    }
    return rings;
  }

private:
  /// Loads that are waited for together, in the order of their first uses.
  struct Group {
    Operation *consumer; ///< in the loop's body
    bool isDelayed;      ///< as its loads are
    SmallVector<const FetchedLoad *> loads;
    SmallVector<Value> channels;
    bool isSkipped = false;        ///< where its loads' condition is false, nobody reads them
    unsigned counter = 0;          ///< the number of its counter among those that the loop carries
    Value use = {};                ///< that an iteration reads
    Operation *lastTile = nullptr; ///< the last read of a tile, once made
  };

  // With two buffers, a copy has less than an iteration to arrive: what is needed later in the body
  // gets a wait of its own there. Of more it has at least one, and one wait (and one barrier) is
  // better. Where a producer partition copies, what is of another iteration has mbarriers of its
  // own: other loops go on with its ring alone.
  static bool isDelayed(const FetchedLoad &load) { return load.load->hasAttr(delayedAttr); }
  /// Of a load without a mask of its own, the condition on which it reads anything.
  static Value conditionOf(Operation *load) {
    if (auto block = dyn_cast<tile::LoadBlockOp>(load))
      return block.getWhen();
    Value mask = cast<tile::LoadOp>(load).getMask();
    auto splat = mask ? mask.getDefiningOp<tile::SplatOp>() : nullptr;
    return splat ? splat.getSource() : Value();
  }
  /// Whether a load's condition is that of a branch, and all that read it are still there.
  bool isSkippedWhole(const FetchedLoad &load) {
    auto isOnly = load.load->getAttrOfType<BoolAttr>(ofBranchAttr);
    return isOnly && isOnly.getValue() && conditionOf(load.load) &&
           llvm::all_of(load.readers(),
                        [&](Operation *reader) { return reader->getBlock() != loop.getBody(); });
  }
  void makeGroups(ArrayRef<FetchedLoad> loads) {
    for (const FetchedLoad &load : loads) {
      Operation *consumer = nullptr;
      for (Operation *reader : load.readers()) {
        Operation *user = loop.getBody()->findAncestorOpInBlock(*reader);
        if (!consumer || user->isBeforeInBlock(consumer))
          consumer = user;
      }
      Group *group = nullptr;
      for (Group &other : groups)
        if (other.isDelayed == isDelayed(load) && slotsOf(other) == load.slots(depth) &&
            (other.consumer == consumer || ahead > 1 || producer != Producer::Copies))
          group = &other;
      if (!group)
        group = &groups.emplace_back(Group{consumer, isDelayed(load), {}, {}});
      group->loads.push_back(&load);
      if (consumer->isBeforeInBlock(group->consumer))
        group->consumer = consumer;
    }
    for (Group &group : groups)
      group.isSkipped = llvm::all_of(group.loads, [&](const FetchedLoad *load) {
        return load->byEngine() && isSkippedWhole(*load) &&
               conditionOf(load->load) == conditionOf(group.loads.front()->load);
      });
    llvm::sort(groups, [](const Group &a, const Group &b) {
      return a.consumer->isBeforeInBlock(b.consumer);
    });
    // Rings of one depth are counted together. Warps that run ahead may be at different uses of
    // different channels when the loop is done.
    for (Group &group : groups) {
      const Group *alike = llvm::find_if(groups, [&](const Group &other) {
        return &other == &group ||
               (producer != Producer::Partition && slotsOf(other) == slotsOf(group));
      });
      group.counter = alike == &group ? numCounters++ : alike->counter;
    }
  }
  unsigned slotsOf(const Group &group) const { return group.loads.front()->slots(depth); }

  void makeChannels(OpBuilder &builder) {
    for (Group &group : groups)
      for (const FetchedLoad *load : group.loads) {
        if (from) {
          group.channels = from->channels;
          break;
        }
        auto type = cta::ChannelType::get(builder.getContext(), load->slots(depth), load->buffer);
        group.channels.push_back(cta::ChannelOp::create(
            builder, load->load->getLoc(), type, IntegerAttr(), producer == Producer::Partition,
            /*by_hand=*/false));
      }
  }

  Value number(OpBuilder &builder, Type type, int64_t value) {
    return numberIn(builder, loop, type, value);
  }

  // Issues the first uses. Gives what the loop carries for the slice at the first use it issues
  // itself.
  SmallVector<Value> prologue(OpBuilder &builder) {
    Location loc = loop.getLoc();
    Type type = loop.getInductionVar().getType();
    Value first = loop.getLowerBound(), entered = isEntered(builder, loop);
    auto insideOf = [&](unsigned use) {
      return use == 0 ? entered
                      : builder.createOrFold<arith::AndIOp>(loc, entered,
                                                            isInside(builder, loop, first, use));
    };
    auto mapOf = [&](unsigned use) {
      // What is beyond the loop is not used as a place.
      Value distance = tile::createToFit<arith::MulIOp>(builder, loc, loop.getStep(),
                                                        number(builder, type, use));
      IRMapping map;
      map.map(loop.getInductionVar(),
              tile::createToFit<arith::AddIOp>(builder, loc, first, distance));
      return map;
    };
    SmallVector<Value> carried(loop.getInitArgs());
    for (unsigned use = 0; use < ahead; ++use) {
      IRMapping map = mapOf(use);
      map.map(loop.getRegionIterArgs(), carried);
      fill(builder, issue(builder, map, use, insideOf(use)), use);
      for (unsigned n : slice.carriedNumbers())
        carried[n] = map.lookupOrDefault(loop.getYieldedValues()[n]);
    }
    SmallVector<Value> next;
    for (unsigned n : slice.carriedNumbers())
      next.push_back(carried[n]);
    return next;
  }

  cta::WaitOp waitFor(OpBuilder &builder, const Group &group, Value use) {
    SmallVector<Type> types;
    for (Value channel : group.channels)
      types.push_back(cast<cta::ChannelType>(channel.getType()).getBuffer());
    return cta::WaitOp::create(builder, group.consumer->getLoc(), types, group.channels, use);
  }

  // Lets the loop carry, besides what it does, the values ahead and the numbers of the uses.
  void carryAhead(OpBuilder &builder, ArrayRef<Value> next) {
    SmallVector<Value> more(next);
    more.append(numCounters, from ? from->uses : number(builder, builder.getI32Type(), 0));
    numCarried = loop.getNumResults();
    loop = withCarried(builder, loop, more);
  }

  void steadyState() {
    Location loc = loop.getLoc();
    Block::BlockArgListType arguments = loop.getRegionIterArgs();
    counters = llvm::to_vector_of<Value>(arguments.take_back(numCounters));
    Operation *terminator = loop.getBody()->getTerminator();
    SmallVector<std::tuple<Group *, const FetchedLoad *, Value>> tiles;
    SmallVector<Value> yielded;
    for (auto [i, group] : llvm::enumerate(groups)) {
      OpBuilder builder(group.consumer);
      group.use = useOf(builder, group, 0);
      if (ahead == 0) {
        addressesBefore(group);
        IRMapping map;
        Value always = number(builder, builder.getI1Type(), 1);
        issueGroup(builder, group, map, 0, always);
      }
      auto wait = waitFor(builder, group, group.use);
      for (auto [load, buffer] : llvm::zip(group.loads, wait.getBuffers())) {
        for (const BufferUse &reader : load->uses)
          readBuffer(builder, reader, buffer);
        tiles.push_back({&group, load, buffer});
      }
      if (i == 0 && ahead > 0)
        yielded = issueAhead(builder);
    }
    OpBuilder end(terminator);
    for (Value counter : counters)
      yielded.push_back(arith::AddIOp::create(end, loc, counter, number(end, end.getI32Type(), 1)));
    terminator->insertOperands(terminator->getNumOperands(), yielded);
    // Only now, as addresses may be computed from what is loaded.
    for (auto &[group, load, buffer] : tiles) {
      OpBuilder builder(group->consumer);
      for (Operation *read : readTile(builder, load->load, load->takers(), buffer)) {
        // Registers hold it no longer than they have to.
        if (producer == Producer::Partition)
          sink(read);
        if (!group->lastTile || group->lastTile->isBeforeInBlock(read))
          group->lastTile = read;
      }
    }
  }

  // Some may be computed only after the first reader. What they are computed from may run ahead of
  // the loop, and so ahead of the reader.
  void addressesBefore(const Group &group) {
    AddressSlice slice(loop);
    for (const FetchedLoad *load : group.loads)
      slice.add(*load);
    for (Operation *op : slice.inOrder())
      if (group.consumer->isBeforeInBlock(op))
        op->moveBefore(group.consumer);
  }

  /// The number of the use that is so many after that of an iteration, or after the first ahead of
  /// the loop.
  Value useOf(OpBuilder &builder, const Group &group, unsigned later) {
    Value count = number(builder, builder.getI32Type(), later);
    if (counters.empty())
      return count;
    return later ? arith::AddIOp::create(builder, loop.getLoc(), counters[group.counter], count)
                       .getResult()
                 : counters[group.counter];
  }

  // Issues what an iteration does for later ones. Gives what the slice carries on.
  SmallVector<Value> issueAhead(OpBuilder &builder) {
    Location loc = loop.getLoc();
    Value iv = loop.getInductionVar();
    Operation *terminator = loop.getBody()->getTerminator();
    Value distance = tile::createToFit<arith::MulIOp>(builder, loc, loop.getStep(),
                                                      number(builder, iv.getType(), ahead));
    IRMapping map;
    map.map(iv, tile::createToFit<arith::AddIOp>(builder, loc, iv, distance));
    for (auto [k, n] : llvm::enumerate(slice.carriedNumbers()))
      map.map(loop.getRegionIterArgs()[n], loop.getRegionIterArgs()[numCarried + k]);
    SmallVector<Value> loaded = issue(builder, map, ahead, isInside(builder, loop, iv, ahead));
    SmallVector<Value> yielded;
    for (unsigned n : slice.carriedNumbers())
      yielded.push_back(map.lookupOrDefault(terminator->getOperand(n)));
    OpBuilder end(terminator);
    fill(end, loaded, ahead);
    return yielded;
  }

  // Computes the addresses of one iteration and copies what is there, or gives it. Where that
  // iteration is not `inside` the loop nothing may be read, and nobody waits for it.
  SmallVector<Value> issue(OpBuilder &builder, IRMapping &map, unsigned later, Value inside) {
    slice.computeAhead(builder, map, inside);
    SmallVector<Value> loaded;
    for (const Group &group : groups)
      llvm::append_range(loaded, issueGroup(builder, group, map, later, inside));
    return loaded;
  }

  SmallVector<Value> issueGroup(OpBuilder &builder, const Group &group, IRMapping &map,
                                unsigned later, Value inside) {
    SmallVector<Value> loaded;
    const Value slot = producer == Producer::Registers ? Value() : useOf(builder, group, later);
    for (auto [fetched, channel] : llvm::zip(group.loads, group.channels)) {
      cta::AcquireOp buffer;
      if (producer != Producer::Registers)
        buffer = cta::AcquireOp::create(builder, fetched->load->getLoc(), fetched->buffer, channel,
                                        slot);
      Operation *load = builder.clone(*fetched->load, map);
      load->removeAttr(ofBranchAttr);
      Value isRead = isSkippedWhole(*fetched) ? conditionOf(load) : Value();
      narrow(load, inside);
      if (!buffer) {
        loaded.push_back(load->getResult(0));
        continue;
      }
      if (fetched->byEngine())
        copyByEngine(builder, *fetched, map, cast<tile::LoadBlockOp>(load), buffer, inside,
                     group.isSkipped);
      else
        copyInstead(builder, load, buffer, builder.getI32IntegerAttr(fetched->vector),
                    isRead ? builder.createOrFold<arith::AndIOp>(load->getLoc(), isRead, inside)
                           : Value());
      load->erase();
    }
    if (producer != Producer::Registers)
      cta::CommitOp::create(builder, group.consumer->getLoc(), group.channels, slot);
    return loaded;
  }

  // Stores what registers hold into the buffers of a use.
  void fill(OpBuilder &builder, ArrayRef<Value> loaded, unsigned later) {
    if (producer != Producer::Registers)
      return;
    for (Group &group : groups) {
      Value slot = useOf(builder, group, later);
      for (auto [fetched, channel] : llvm::zip(group.loads, group.channels)) {
        Location loc = fetched->load->getLoc();
        auto buffer = cta::AcquireOp::create(builder, loc, fetched->buffer, channel, slot);
        cta::LocalStoreOp::create(builder, loc, loaded.front(), buffer);
        loaded = loaded.drop_front();
      }
      cta::CommitOp::create(builder, group.consumer->getLoc(), group.channels, slot);
    }
  }

  // Copies what a load would. Where `isRead` is given and false nobody reads it, and no thread
  // spends anything on it.
  static void copyInstead(OpBuilder &builder, Operation *op, Value buffer, IntegerAttr vector,
                          Value isRead) {
    if (auto load = dyn_cast<tile::LoadOp>(op)) {
      cta::AsyncCopyOp::create(builder, op->getLoc(), load.getPtr(), buffer,
                               isRead ? Value() : load.getMask(), isRead, load.getCache(),
                               load.getEviction(), vector);
      return;
    }
    auto load = cast<tile::LoadBlockOp>(op);
    auto layout = cast<cta::LayoutAttr>(load.getType().getEncoding());
    cta::AsyncCopyBlockOp::create(builder, op->getLoc(), load.getView(), load.getOffsets(), buffer,
                                  isRead ? Value() : load.getWhen(), isRead, layout,
                                  load.getCache(), load.getEviction(), vector);
  }

  // The engine copies nothing at all where the iteration is not inside the loop. Where it is, and
  // the load's condition is false, it gives zeros, or no bytes where nobody reads them.
  static void copyByEngine(OpBuilder &builder, const FetchedLoad &fetched, const IRMapping &map,
                           tile::LoadBlockOp load, Value buffer, Value inside, bool isSkipped) {
    const Location loc = load.getLoc();
    SmallVector<Value> offsets =
        fetched.tensor->coordinatesOf(builder, loc, load.getOffsets(), map);
    Value isRead = load.getWhen();
    if (!isSkipped && isRead && isRead != inside)
      moveOutsideUnless(builder, loc, isRead, offsets);
    if (constantInt(inside).value_or(0))
      inside = {};
    cta::TensorCopyBlockOp::create(builder, loc, fetched.tensor->view, offsets, buffer,
                                   /*barriers=*/Value(), /*index=*/Value(), inside,
                                   isSkipped ? isRead : Value(), /*expects=*/0, fetched.isShared,
                                   fetched.hasLines() ? extentsOfLines(load.getType())
                                                      : DenseI64ArrayAttr());
  }

  // Says of each group that it has been read, after its last reader.
  void release(const Group &group) {
    Operation *last = group.lastTile;
    for (const FetchedLoad *load : group.loads)
      for (const BufferUse &reader : load->uses) {
        Operation *user = loop.getBody()->findAncestorOpInBlock(*reader.operand->getOwner());
        if (!last || last->isBeforeInBlock(user))
          last = user;
      }
    OpBuilder builder(last->getContext());
    builder.setInsertionPointAfter(last);
    cta::ReleaseOp::create(builder, last->getLoc(), group.channels, group.use, /*previous=*/false);
  }

  scf::ForOp loop;
  const Producer producer;
  const unsigned depth, ahead; ///< buffers, and iterations that loads are issued ahead
  unsigned numCarried = 0;
  AddressSlice slice;
  const Ring *from;
  SmallVector<Group> groups;
  unsigned numCounters = 0;
  SmallVector<Value> counters; ///< of uses, in the loop
};

bool isZero(Attribute constant) {
  return matchPattern(constant, m_Zero()) || matchPattern(constant, m_PosZeroFloat());
}

} // namespace

std::string whyNotAhead(scf::ForOp loop, Operation *load, Producer producer,
                        AddressAnalysis &addresses) {
  if (isVolatileLoad(load))
    return "it is volatile";
  // What it gives where nothing is read: a block's padding is a constant.
  Value other;
  bool zeros = true;
  if (auto block = dyn_cast<tile::LoadBlockOp>(load)) {
    zeros = !block.getPaddingAttr() || isZero(block.getPaddingAttr());
  } else if ((other = cast<tile::LoadOp>(load).getOther())) {
    Attribute constant;
    zeros = matchPattern(other, m_Constant(&constant)) && isZero(constant);
  }
  if (producer == Producer::Registers && other && !loop.isDefinedOutsideOfLoop(other))
    return "the loop computes what it gives where the mask is false";
  if (producer == Producer::Copies && !zeros)
    return "an asynchronous copy gives zeros where the mask is false";
  if (anyIn(loop, holdsLoadsBack))
    return "the loop orders memory";
  if (mayBeWritten(loop, load, addresses))
    return "the loop may write to what it reads";
  AddressSlice slice(loop);
  slice.add(load);
  for (Operation *op : slice.operations()) {
    if (op == load || !canRunAhead(loop, op))
      return ((load->getParentOp() == loop ? "its address depends on "
                                           : "its address or its condition depends on ") +
              op->getName().getStringRef())
          .str();
    if (anyIn(op, [&](Operation *inner) {
          return isLoad(inner) && mayBeWritten(loop, inner, addresses);
        }))
      return "the loop may write to what its address depends on";
  }
  return {};
}

void moveOutOfBranches(scf::ForOp loop, Operation *load) {
  AddressSlice slice(loop);
  slice.add(load);
  Operation *top = loop.getBody()->findAncestorOpInBlock(*load);
  OpBuilder builder(top);
  Value isTaken;
  for (scf::IfOp branch : branchesAround(loop, load)) {
    Block *block = sideOf(branch, load);
    Value condition = branch.getCondition();
    if (block == branch.elseBlock())
      condition = arith::XOrIOp::create(builder, branch.getLoc(), condition,
                                        numberIn(builder, loop, condition.getType(), 1));
    isTaken =
        isTaken ? arith::AndIOp::create(builder, branch.getLoc(), isTaken, condition) : condition;
    for (Operation *op : slice.inOrder(block)) {
      op->moveBefore(top);
      computeWhere(op, isTaken);
    }
  }
  load->moveBefore(top);
  narrow(load, isTaken);
}

void moveIntoBranches(Operation *load) {
  Block *block = load->getBlock();
  // The operation of a block that all users are in, or the first of several.
  auto userIn = [&](Block *block) {
    Operation *first = nullptr;
    bool isOnly = true;
    for (Operation *user : load->getUsers()) {
      Operation *in = block->findAncestorOpInBlock(*user);
      isOnly &= in && (!first || in == first);
      if (in && (!first || in->isBeforeInBlock(first)))
        first = in;
    }
    return std::pair(first, isOnly);
  };
  auto [user, isOnly] = userIn(block);
  while (auto branch = isOnly ? dyn_cast_if_present<scf::IfOp>(user) : nullptr) {
    Block *side = sideOf(branch, *load->user_begin());
    if (!llvm::all_of(load->getUsers(),
                      [&](Operation *each) { return side->findAncestorOpInBlock(*each); }))
      break;
    std::tie(user, isOnly) = userIn(side);
  }
  if (user)
    load->moveBefore(user);
}

SmallVector<Ring> fetchAhead(const LoopPlan &plan) { return Pipeline(plan).run(); }

void loadAhead(scf::ForOp loop, ArrayRef<Operation *> loads) {
  AddressSlice slice(loop);
  for (Operation *load : loads)
    slice.add(load);
  const ArrayRef<unsigned> carried = slice.carriedNumbers();
  // Gives what the loop carries on: what the slice does, and what is loaded.
  auto issue = [&](OpBuilder &builder, IRMapping &map, Value inside) {
    slice.computeAhead(builder, map, inside);
    SmallVector<Value> next;
    for (unsigned n : carried)
      next.push_back(map.lookupOrDefault(loop.getYieldedValues()[n]));
    for (Operation *load : loads) {
      Operation *ahead = builder.clone(*load, map);
      narrow(ahead, inside);
      next.push_back(ahead->getResult(0));
    }
    return next;
  };
  OpBuilder builder(loop);
  IRMapping first;
  first.map(loop.getInductionVar(), loop.getLowerBound());
  first.map(loop.getRegionIterArgs(), loop.getInitArgs());
  const SmallVector<Value> inits = issue(builder, first, isEntered(builder, loop));
  const unsigned own = loop.getNumResults();
  loop = withCarried(builder, loop, inits);
  const auto arguments = loop.getRegionIterArgs().drop_front(own);

  builder.setInsertionPointToStart(loop.getBody());
  Value iv = loop.getInductionVar();
  IRMapping next;
  next.map(iv, tile::createToFit<arith::AddIOp>(builder, loop.getLoc(), iv, loop.getStep()));
  for (auto [k, n] : llvm::enumerate(carried))
    next.map(loop.getRegionIterArgs()[n], arguments[k]);
  const SmallVector<Value> yielded = issue(builder, next, isInside(builder, loop, iv, 1));
  Operation *terminator = loop.getBody()->getTerminator();
  terminator->insertOperands(terminator->getNumOperands(), yielded);
  for (auto [load, value] : llvm::zip_equal(loads, arguments.take_back(loads.size())))
    load->getResult(0).replaceAllUsesWith(value);
  for (Operation *load : loads)
    load->erase();
}

bool followsFrom(scf::ForOp loop, Operation *load, Operation *other) {
  AddressSlice slice(loop);
  slice.add(load);
  return slice.contains(other);
}

bool followsCarried(scf::ForOp loop, Operation *load) {
  AddressSlice slice(loop);
  slice.add(load);
  return !slice.carriedNumbers().empty();
}

} // namespace sectile
