// The explicit level: channels, partitions, barriers, mbarriers and dots in flight.
#include "dsl/Memory.h"
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include <sectile/cta.h>

using namespace mlir;

namespace sectile::detail {

namespace {

/// Channels, partitions and barriers belong to a kernel as a whole.
void requireTopLevel(Trace &trace, StringRef what, Location where) {
  if (trace.depth() || (trace.functions && !trace.functions->open.empty()))
    fail(where, what + " is part of a kernel's outermost level: it stands in no loop, branch, "
                       "partition or sc::Function");
}

std::vector<Value> wrapAll(Trace &trace, ValueRange values) {
  std::vector<Value> handles;
  for (mlir::Value value : values)
    handles.push_back(trace.wrap(value));
  return handles;
}

SmallVector<mlir::Type> slotTypes(mlir::Value channel) {
  return llvm::map_to_vector(cast<tile::ChannelType>(channel.getType()).getTiles(),
                             [](RankedTensorType tile) {
                               return mlir::Type(tile::SlotType::get(tile.getContext(), tile));
                             });
}

} // namespace

//===-- Channels ------------------------------------------------------------------------------===//

Ring::Ring(const Extent &depth, std::span<const SlotShape> tiles) {
  const Location where = depth.where;
  Trace &trace = Trace::current(where);
  requireTopLevel(trace, "a channel", where);
  if (depth.number < 1 || depth.number > 64)
    fail(where, "a channel has 1 to 64 slots, not " + Twine(depth.number));
  SmallVector<RankedTensorType> types;
  for (const SlotShape &tile : tiles) {
    const int64_t shape[] = {tile.rows, tile.columns};
    checkTileShape(shape, where);
    types.push_back(RankedTensorType::get(shape, elementTypeOf(trace, tile.kind)));
  }
  mlir::Location loc = trace.location(where);
  channel_ = trace.wrap(tile::ChannelOp::create(
      trace.builder, loc, tile::ChannelType::get(trace.builder.getContext(), depth.number, types)));
  oldest_ = trace.wrap(constantOf(trace, loc, trace.builder.getI32Type(), 0));
  if (trace.functions)
    trace.functions->hasChannels = true;
}

Value Ring::use(int later, Location where) const {
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  mlir::Value oldest = trace.get(oldest_, where);
  return trace.wrap(trace.builder.createOrFold<arith::AddIOp>(
      loc, oldest, constantOf(trace, loc, oldest.getType(), later)));
}

void Ring::next(Location where) { oldest_ = use(1, where); }

/// A partition that was not here before counts from 0.
void Ring::enter(Location where) {
  const unsigned here = Trace::current(where).partition();
  if (partition_ != here)
    acquired_ = committed_ = waited_ = 0;
  partition_ = here;
}

bool Ring::isBetweenWarps() const { return filledBy_.value_or(0) != 0; }

Value Ring::acquire(std::size_t tile) const { return filled_[tile]; }
Value Ring::wait(std::size_t tile) const { return read_[tile]; }

void Ring::acquire(Location where) {
  Trace &trace = Trace::current(where);
  enter(where);
  if (filledBy_.value_or(partition_) != partition_)
    fail(where, isBetweenWarps()
                    ? "a partition fills this channel: the rest of the kernel waits and releases, "
                      "and acquires nothing"
                    : "the rest of the kernel fills this channel: a partition has others to fill");
  filledBy_ = partition_;
  mlir::Value channel = trace.get(channel_, where);
  filled_ = wrapAll(trace, tile::AcquireOp::create(
                               trace.builder, trace.location(where), slotTypes(channel), channel,
                               trace.get(use(waited_ + committed_ + acquired_, where), where))
                               .getSlots());
  ++acquired_;
}

void Ring::commit(Location where) {
  Trace &trace = Trace::current(where);
  enter(where);
  if (acquired_ == 0)
    fail(where, "this channel commits a use that was not acquired: acquire a slot, copy, commit");
  tile::CommitOp::create(trace.builder, trace.location(where), trace.get(channel_, where),
                         trace.get(use(waited_ + committed_, where), where));
  --acquired_;
  // Other warps count what is committed.
  if (isBetweenWarps())
    next(where);
  else
    ++committed_;
}

void Ring::wait(Location where) {
  Trace &trace = Trace::current(where);
  enter(where);
  if (partition_ && filledBy_ == partition_)
    fail(where, "a partition that waits for a channel waits for itself: it acquires, copies and "
                "commits, and the rest of the kernel waits and releases");
  if (partition_ && !isBetweenWarps())
    fail(where, "no partition before this one fills the channel: those that fill channels are "
                "stated before those that read them");
  mlir::Value channel = trace.get(channel_, where);
  read_ =
      wrapAll(trace, tile::WaitOp::create(trace.builder, trace.location(where), slotTypes(channel),
                                          channel, trace.get(use(waited_, where), where))
                         .getSlots());
  ++waited_;
  if (!isBetweenWarps())
    --committed_;
}

void Ring::release(Location where) {
  Trace &trace = Trace::current(where);
  enter(where);
  if (partition_ && (!isBetweenWarps() || filledBy_ == partition_))
    fail(where, "a partition releases no slot that it fills: who waits for a use releases it");
  tile::ReleaseOp::create(trace.builder, trace.location(where), trace.get(channel_, where),
                          trace.get(use(0, where), where));
  --waited_;
  next(where);
}

/// A slot is filled with a tile of its shape.
static void requireShape(mlir::Value slot, mlir::Value tile, const char *how, Location where) {
  ArrayRef<int64_t> wanted = cast<tile::SlotType>(slot.getType()).getTile().getShape(),
                    given = tile::shapeOf(tile.getType());
  if (wanted != given)
    fail(where, "a tile of " + shapeText(given) + " is " + how + " to a slot of " +
                    shapeText(wanted) + ": a slot's use counts the bytes of all of it");
}

void storeSlot(const Value &slot, const Value &tile, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Value to = trace.get(slot, where), from = trace.get(tile, where);
  requireShape(to, from, "stored", where);
  tile::FillOp::create(trace.builder, trace.location(where), from, to, /*stored=*/true);
}

void fillSlot(const Value &slot, const Value &tile, const Operand &when, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Value to = trace.get(slot, where), from = trace.get(tile, where);
  requireShape(to, from, "copied", where);
  if (!when.none) {
    mlir::Value holds = materialize(trace, when, Kind::boolean);
    if (!holds.getType().isInteger(1))
      fail(where, "a copy happens or does not: its condition is one bool");
    from.getDefiningOp<tile::LoadBlockOp>().getWhenMutable().assign(holds);
  }
  tile::FillOp::create(trace.builder, trace.location(where), from, to);
}

Value readSlot(const Value &slot, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Value from = trace.get(slot, where);
  return trace.wrap(tile::ReadSlotOp::create(trace.builder, trace.location(where),
                                             cast<tile::SlotType>(from.getType()).getTile(), from));
}

//===-- Dots in flight ------------------------------------------------------------------------===//

Value dotInFlight(Kind a, const Value &left, Kind b, const Value &right, Kind acc,
                  const Value &sums, Precision precision, Location where) {
  Value result = dot(a, left, b, right, acc, &sums, precision, where);
  Trace &trace = Trace::current(where);
  trace.get(result, where)
      .getDefiningOp()
      ->setAttr(tile::inFlightAttr, trace.builder.getI32IntegerAttr(int(trace.dotsInFlight++)));
  return result;
}

Value waitForDot(const Value &sums, Location where) {
  Trace &trace = Trace::current(where);
  return trace.wrap(
      tile::DotWaitOp::create(trace.builder, trace.location(where), trace.get(sums, where)));
}

void waitForDots(const Extent &pending) {
  Trace &trace = Trace::current(pending.where);
  if (pending.number < 0 || pending.number > 8)
    fail(pending.where,
         "sc::cta::wait_for_dots leaves 0 to 8 dots in flight, not " + Twine(pending.number));
  tile::DotsWaitOp::create(trace.builder, trace.location(pending.where), pending.number);
}

//===-- Partitions ----------------------------------------------------------------------------===//

void partition(const cta::PartitionOptions &options, const Callback &body, Location where) {
  Trace &trace = Trace::current(where);
  requireTopLevel(trace, "a partition", where);
  if (options.warps < 1 || options.warps > 32)
    fail(where, "a partition has 1 to 32 warps, not " + Twine(options.warps));
  SmallVector<int32_t, 2> registers;
  if (options.registers || options.others) {
    for (int count : {options.registers, options.others})
      if (count && (count < 24 || count > 240 || count % 8))
        fail(where, "a thread of a partition or beside one has 24 to 240 registers, a multiple of "
                    "8, not " +
                        Twine(count));
    if (!options.registers)
      fail(where, "sc::cta::partition has registers for the others but none for itself");
    registers = {options.registers, options.others};
  }
  OpenFrame open(trace, where);
  open.frame.partition = ++trace.partitions;
  body();
  trace.rethrowPoison();
  trace.restore(open.frame);
  Block &traced = open.frame.region->front();
  trace.builder.restoreInsertionPoint(open.frame.outside);
  auto made =
      tile::PartitionOp::create(trace.builder, trace.location(where), options.warps, registers);
  Block *block = &made.getBody().emplaceBlock();
  block->getOperations().splice(block->end(), traced.getOperations());
  open.closed();
  trace.close(open.frame, [&](mlir::Value value) {
    return value.getParentBlock() == block ? mlir::Value() : value;
  });
}

//===-- Barriers ------------------------------------------------------------------------------===//

unsigned makeBarrier(const Extent &warps) {
  Trace &trace = Trace::current(warps.where);
  requireTopLevel(trace, "a barrier", warps.where);
  if (warps.number < 1 || warps.number > 64)
    fail(warps.where, "1 to 64 warps come to a barrier, not " + Twine(warps.number));
  return trace.namedBarriers++;
}

void meetAtBarrier(unsigned number, int warps, bool arrives, Location where) {
  Trace &trace = Trace::current(where);
  tile::NamedBarrierOp::create(trace.builder, trace.location(where), number, warps, arrives);
}

//===-- Mbarriers -----------------------------------------------------------------------------===//

/// The number of an mbarrier or a phase, as the operations have it.
static mlir::Value numberOf(Trace &trace, const Operand &operand, StringRef what) {
  mlir::Value number = scalarIndex(trace, operand, what);
  mlir::Type i32 = trace.builder.getI32Type();
  if (number.getType() == i32)
    return number;
  return trace.builder.createOrFold<arith::TruncIOp>(trace.location(operand.where), i32, number);
}

Value makeMbarriers(const Extent &count, const Extent &arrivals) {
  const Location where = count.where;
  Trace &trace = Trace::current(where);
  requireTopLevel(trace, "an mbarrier", where);
  if (count.number < 1 || count.number > 64)
    fail(where, "sc::cta::Mbarriers makes 1 to 64 mbarriers, not " + Twine(count.number));
  if (arrivals.number < 1 || arrivals.number > 64)
    fail(where, "1 to 64 arrivals end a phase of an mbarrier, not " + Twine(arrivals.number));
  return trace.wrap(tile::MbarriersOp::create(
      trace.builder, trace.location(where),
      tile::MbarriersType::get(trace.builder.getContext(), count.number), arrivals.number));
}

void arriveAtMbarrier(const Value &barriers, const Operand &which) {
  Trace &trace = Trace::current(which.where);
  mlir::Value index = numberOf(trace, which, "the number of an mbarrier");
  tile::MbarrierArriveOp::create(trace.builder, trace.location(which.where),
                                 trace.get(barriers, which.where), index);
}

void waitAtMbarrier(const Value &barriers, const Operand &which, const Operand &phase) {
  Trace &trace = Trace::current(which.where);
  mlir::Value index = numberOf(trace, which, "the number of an mbarrier"),
              number = numberOf(trace, phase, "the number of a phase");
  tile::MbarrierWaitOp::create(trace.builder, trace.location(which.where),
                               trace.get(barriers, which.where), index, number);
}

} // namespace sectile::detail
