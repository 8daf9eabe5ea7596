// Replaces stores of threads by stores of the copy engine, and finds buffers for them.
//
// After a loop, where its ring was:     In loops over tiles, while a partition fills the ring:
//
//   buffer = alloc tile                   buffers = alloc, alloc       (before the loops)
//   tensor_store buffer                   for each tile:
//   tensor_store_wait buffer                tensor_store_wait written  (of the tile before)
//                                           for each piece:
//                                             tensor_store_wait        (of the piece before the
//                                             last) local_store piece; tensor_store
//
// A tile may be stored under a condition, and an operation ahead of it in the loop may release what
// was stored before to other programs: it waits for that as the next tile does. The loop then
// carries whether there is something to wait for.
#include "passes/loops/EngineStores.h"
#include "ir/cta/TensorMap.h"
#include "ir/layout/TensorBoxes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Kernel.h"
#include "passes/analysis/MemoryOrder.h"
#include "passes/analysis/Registers.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/analysis/Warps.h"
#include "passes/layouts/ChooseBuffer.h"
#include "passes/loops/CarriedValues.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace sectile {

namespace {

/// Bytes of shared memory for mbarriers and small scratch.
constexpr int64_t smallThings = 2048;
/// What the engine reads from begins at multiples of this many bytes.
constexpr int64_t alignment = 1024;

bool isInLoop(Operation *op) { return bool(op->getParentOfType<LoopLikeOpInterface>()); }

/// The branch that an operation is done in if a condition holds, and not otherwise; null elsewhere.
scf::IfOp branchAround(Operation *op) {
  auto branch = dyn_cast<scf::IfOp>(op->getParentOp());
  return branch && op->getBlock() == branch.thenBlock() ? branch : nullptr;
}

/// The loop whose body an operation is in, maybe under a condition, if nothing but loops with
/// counts is around it; in a partition that loop is the only one.
scf::ForOp tileLoopOf(Operation *op) {
  scf::IfOp branch = branchAround(op);
  auto loop = dyn_cast<scf::ForOp>((branch ? branch.getOperation() : op)->getParentOp());
  if (!loop || isa<cta::PartitionOp>(loop->getParentOp()))
    return loop;
  Operation *around = loop->getParentOp();
  while (isa<scf::ForOp>(around))
    around = around->getParentOp();
  return isa<func::FuncOp>(around) ? loop : nullptr;
}

scf::ForOp outermostOf(scf::ForOp loop) {
  while (auto outer = dyn_cast<scf::ForOp>(loop->getParentOp()))
    loop = outer;
  return loop;
}

/// Whether nothing in the kernel can tell when it is done.
bool isUnordered(tile::AtomicBlockOp atomic) {
  return atomic.getOrder() == tile::Order::Relaxed && atomic.getResult().use_empty();
}

/// Whether an operation releases what this program did to other programs, or acquires what they
/// did. No store can come too late for the wait for the launches ahead.
bool ordersStores(Operation *op) {
  const OrderingEffects order = memoryOrderOf(op);
  return order.releases || order.acquires;
}

/// Whether all iterations of a loop over tiles do an operation, if at all, ahead of a store.
bool isAheadInLoop(Operation *op, Operation *store) {
  Block *body = tileLoopOf(store).getBody();
  Operation *ahead = body->findAncestorOpInBlock(*op);
  return ahead && ahead->isBeforeInBlock(body->findAncestorOpInBlock(*store));
}

Value valueOf(Operation *store) {
  return isa<tile::AtomicBlockOp>(store) ? cast<tile::AtomicBlockOp>(store).getValue()
                                         : cast<tile::StoreBlockOp>(store).getValue();
}

/// The conversion through shared memory that a store's tile comes from; null if there is none.
cta::ConvertLayoutOp conversionOf(Operation *store) {
  auto convert = valueOf(store).getDefiningOp<cta::ConvertLayoutOp>();
  return convert && planOf(convert).kind == ConversionPlan::Kind::Scratch ? convert : nullptr;
}

/// Whether threads would store a tile as they have it by words of 4 bytes or less, as sums of
/// transposed operands.
bool isStoredInWords(tile::StoreBlockOp store) {
  constexpr unsigned wordBits = 32, fewRegisters = 16;
  const auto type = cast<RankedTensorType>(store.getValue().getType());
  const std::optional<unsigned> dim = denseDimension(blockOf(store)->view);
  return dim && type.getRank() == 2 && registersOf(type) >= fewRegisters &&
         (tileLoopOf(store) || !isInLoop(store)) &&
         cta::layoutOf(type)->contiguousPerThread(*dim) * cta::elementBits(type) <= wordBits;
}

/// The tile that a store stores, or whose lines it does, before any conversion for the sake of
/// threads.
Value tileOf(Operation *store) {
  const Value value = valueOf(store);
  if (Value lines = linesOf(value))
    return lines;
  auto convert = value.getDefiningOp<cta::ConvertLayoutOp>();
  return convert ? convert.getSource() : value;
}

/// Of what a store stores, where that is the lines of the tile.
DenseI64ArrayAttr extentsOf(Operation *store) {
  const Value value = valueOf(store);
  return linesOf(value) ? extentsOfLines(cast<RankedTensorType>(value.getType()))
                        : DenseI64ArrayAttr();
}

/// The last tile ahead of a store that its block puts into a buffer, or the store where there is
/// none. Threads meet there before others read the buffer, and need not meet again for what one of
/// them has waited for by then.
Operation *lastAllocBefore(Operation *store) {
  for (Operation *op = store->getPrevNode(); op; op = op->getPrevNode())
    if (auto alloc = dyn_cast<cta::AllocOp>(op); alloc && alloc.getInit())
      return op;
  return store;
}

} // namespace

int64_t EngineStores::Pieces::bytes() const {
  return buffers() * int64_t(llvm::alignTo(buffer.getBytes(), alignment));
}

SmallVector<Operation *> EngineStores::candidates() {
  SmallVector<Operation *> stores;
  kernel.walk([&](Operation *op) {
    auto store = dyn_cast<tile::StoreBlockOp>(op);
    if (isa<tile::AtomicBlockOp>(op) || (store && (conversionOf(op) || isStoredInWords(store))))
      stores.push_back(op);
  });
  return stores;
}

/// Why the engine cannot store a block, or add one to memory; empty when it can. Nobody waits until
/// it has, so that nothing else in the kernel may depend on it.
std::string EngineStores::whyNot(Operation *store, bool perTile) {
  if (auto plain = dyn_cast<tile::StoreBlockOp>(store)) {
    if (plain.getCache() != tile::Cache::Default || plain.getEviction() != tile::Eviction::Normal)
      return "it has a hint for the cache";
  } else {
    auto atomic = cast<tile::AtomicBlockOp>(store);
    if (!isUnordered(atomic))
      return "it is ordered, or its result is used";
    if (atomic.getScope() == tile::Scope::System)
      return "it is atomic for the whole system";
    const Type element = cta::elementOf(atomic.getType());
    if (atomic.getKind() != tile::AtomicKind::FAdd || !cta::addedAs(element))
      return "it adds no floats of 16 or 32 bits";
    if (element.isF32() && !perTile)
      return "threads add floats of 32 bits as fast, with nothing left to do after them";
  }
  std::string why = whyNoTensorStore(*blockOf(store), contiguity);
  if (!why.empty())
    return why;
  if (cast<RankedTensorType>(tileOf(store).getType()).getRank() != 2)
    return "it has not two dimensions";
  const GlobalAccess written = *addresses.accessOf(store);
  anyIn(kernel, [&](Operation *op) {
    // Nothing orders what other partitions write, whoever stores, and they read nothing of it.
    if (partitionOf(op) != partitionOf(store))
      return false;
    const std::optional<GlobalAccess> access = addresses.accessOf(op);
    if (ordersStores(op) && !(perTile && isAheadInLoop(op, store)))
      why = "the kernel orders memory for other programs";
    else if (op != store && access && addresses.mayEverOverlap(*access, written))
      why = "the kernel may read or write it elsewhere";
    return !why.empty();
  });
  return why;
}

/// A store's tile in so many pieces along a dimension, that of neighbours if not said; nothing
/// where threads do not hold equal parts of each, or where lines would be shorter than the whole
/// tile's and than the engine's widest.
std::optional<EngineStores::Pieces> EngineStores::split(Operation *store, unsigned count,
                                                        std::optional<unsigned> along) {
  constexpr unsigned widestLineBits = 1024;
  auto type = cast<RankedTensorType>(tileOf(store).getType());
  const unsigned dim = extentsOf(store) ? 1 : *denseDimension(blockOf(store)->view);
  Pieces pieces{dim, along.value_or(dim), count, {}};
  if (count > 1) {
    const std::optional<Layout> part = cta::layoutOf(type)->slice(pieces.along, count);
    const int64_t widest =
        std::min<int64_t>(widestLineBits, cta::layoutOf(type)->core(dim) * cta::elementBits(type));
    if (!part || part->shape()[dim] * cta::elementBits(type) < widest)
      return std::nullopt;
    type = RankedTensorType::get(part->shape(), type.getElementType(),
                                 cta::LayoutAttr::get(type.getContext(), *part));
  }
  if (!hasPanels(type, pieces.dim))
    return std::nullopt;
  pieces.buffer = isa<tile::AtomicBlockOp>(store)
                      ? *engineBuffer(type, pieces.dim)
                      : chooseBuffer(type, {{}, /*byDescriptor=*/true, pieces.dim}, target);
  const std::optional<TensorBoxes> boxes =
      planTensorBoxes(pieces.buffer.getLayout().getLayout(), cta::elementBits(type));
  return boxes && (!extentsOf(store) || boxes->hasWholeColumns()) ? std::optional(pieces)
                                                                  : std::nullopt;
}

/// All ways to split a store, that with the fewest pieces first: along the dimension of neighbours,
/// or else, where threads hold no equal parts of that, across it.
SmallVector<EngineStores::Pieces> EngineStores::splits(Operation *store) {
  SmallVector<Pieces> all;
  std::optional<Pieces> whole = split(store, 1);
  if (!whole)
    return all;
  all.push_back(*whole);
  const Layout *layout = cta::layoutOf(tileOf(store).getType());
  for (unsigned along : {whole->dim, 1 - whole->dim}) {
    unsigned count = layout->repeats(along) > 1 ? unsigned(layout->repeats(along)) : 2;
    for (; std::optional<Pieces> pieces = split(store, count, along); count *= 2)
      all.push_back(*pieces);
    if (all.size() > 1 || extentsOf(store))
      break;
  }
  return all;
}

/// The fewest pieces that fit.
std::optional<EngineStores::Pieces> EngineStores::splitToFit(Operation *store, int64_t room) {
  for (const Pieces &pieces : splits(store))
    if (pieces.bytes() <= room)
      return pieces;
  return std::nullopt;
}

int64_t EngineStores::bytesBeside(Operation *loop, DenseSet<Operation *> without) {
  int64_t stored = smallThings;
  for (Operation *store : candidates()) {
    if (!tileLoopOf(store) || outermostAround(store) != loop ||
        !whyNot(store, /*perTile=*/true).empty())
      continue;
    const SmallVector<Pieces> ways = splits(store);
    if (ways.empty())
      continue;
    int64_t least = ways.front().bytes();
    for (const Pieces &pieces : ways)
      least = std::min(least, pieces.bytes());
    stored += least;
    if (cta::ConvertLayoutOp convert = conversionOf(store); convert && convert->hasOneUse())
      without.insert(convert);
  }
  // A producer partition fills its ring from the kernel's beginning on, whatever the main one does.
  int64_t scratch = 0;
  for (Operation *op = &loop->getBlock()->front(); op != loop->getNextNode();
       op = op->getNextNode())
    scratch = std::max(scratch, scratchIn(op, without));
  return stored + scratch;
}

EngineStores::Plan EngineStores::plan() {
  Plan plan;
  int64_t rings = 0, others = 0;
  kernel.walk([&](cta::ChannelOp channel) { rings += channel.getType().getBytes(); });
  kernel.walk([&](cta::AllocOp alloc) { others += alloc.getType().getBytes(); });
  const SmallVector<Operation *> stores = candidates();
  if (rings == 0 || stores.empty())
    return plan;
  const bool partitioned =
      anyIn(kernel, [](cta::ChannelOp channel) { return channel.getBetweenWarps(); });
  int64_t whereRingsWere = rings;
  int64_t besideRings = target.maxSharedBytes - rings - others - smallThings;
  // Computing partitions run at the same time, so each has its own scratch.
  const size_t computing = computingPartitionsOf(kernel).size();
  if (computing) {
    DenseSet<Operation *> replaced;
    for (Operation *store : stores)
      if (cta::ConvertLayoutOp convert = conversionOf(store); convert && convert->hasOneUse())
        replaced.insert(convert);
    besideRings -= int64_t(computing + 1) * scratchIn(kernel, replaced);
  }
  for (Operation *store : stores) {
    const bool perTile = tileLoopOf(store) && partitioned;
    if (isInLoop(store) && !perTile && !isa<tile::AtomicBlockOp>(store) && !conversionOf(store))
      continue;
    std::string why;
    // Rings that end with their loop have their place after it, where nobody waits for a store.
    if (isInLoop(store) && !perTile)
      why = "it is in a loop";
    else if (!perTile && computing)
      why = "other warps may still use the loops' buffers";
    if (why.empty())
      why = whyNot(store, perTile);
    if (why.empty()) {
      int64_t &room = perTile ? besideRings : whereRingsWere;
      std::optional<Pieces> pieces = split(store, 1);
      if (!pieces)
        why = "its extents are no multiples of eight";
      else if (pieces = perTile                   ? splitToFit(store, room)
                        : pieces->bytes() <= room ? pieces
                                                  : std::nullopt;
               !pieces)
        why = perTile ? "there is no room for it beside the loops' buffers"
                      : "there is no room for it where the loops' buffers were";
      if (pieces) {
        room -= pieces->bytes();
        plan.stores.push_back({store, *pieces});
        continue;
      }
    }
    plan.remarks.push_back(
        {store, (isa<tile::AtomicBlockOp>(store)
                     ? "this block is added by threads, not by the copy engine: "
                     : "this block is stored by threads, not by the copy engine: ") +
                    why});
  }
  return plan;
}

void EngineStores::apply(const Plan &plan) {
  for (auto &[store, why] : plan.remarks)
    store->emitRemark(why);
  llvm::MapVector<Block *, SmallVector<Value>> stored;
  for (auto &[store, pieces] : plan.stores) {
    if (isInLoop(store)) {
      storePerTile(store, pieces);
    } else {
      OpBuilder builder(store);
      const ViewBlock block = *blockOf(store);
      const TensorBlock tensor = makeTensorBlock(builder, block, contiguity);
      Value buffer = cta::AllocOp::create(builder, store->getLoc(), pieces.buffer, tileOf(store),
                                          IntegerAttr());
      cta::TensorStoreBlockOp::create(builder, store->getLoc(), tensor.view,
                                      tensor.coordinatesOf(builder, store->getLoc(), block.offsets),
                                      buffer, /*adds=*/isa<tile::AtomicBlockOp>(store),
                                      extentsOf(store));
      stored[store->getBlock()].push_back(buffer);
    }
    store->erase();
  }
  for (auto &[block, buffers] : stored) {
    OpBuilder builder(block->getTerminator());
    cta::TensorStoreWaitOp::create(builder, block->getTerminator()->getLoc(), buffers,
                                   /*when=*/Value(), /*later=*/0, /*written=*/false);
  }
  predicateStoreWaits();
}

/// Stores a tile in each iteration of some loops, or where a condition holds. The one before has to
/// be done: both may be of the same bytes. Of additions, which come in any order, its buffer has to
/// be read.
void EngineStores::storePerTile(Operation *store, const Pieces &pieces) {
  const Location loc = store->getLoc();
  scf::ForOp loop = outermostOf(tileLoopOf(store));
  OpBuilder before(loop), builder(store), after(loop->getContext());
  after.setInsertionPointAfter(loop);
  const ViewBlock block = *blockOf(store);
  const TensorBlock tensor = makeTensorBlock(builder, block, contiguity);
  const Value tile = tileOf(store);
  const auto type = cast<RankedTensorType>(tile.getType());
  const SmallVector<Value> coordinates = tensor.coordinatesOf(builder, loc, block.offsets);
  const unsigned along = coordinates.size() - type.getRank() + pieces.along;
  SmallVector<Value> buffers;
  for (unsigned i = 0; i < pieces.buffers(); ++i)
    buffers.push_back(cta::AllocOp::create(before, loc, pieces.buffer, Value(), IntegerAttr()));
  TileLoopStore made{branchAround(store), {}, nullptr};
  const bool adds = isa<tile::AtomicBlockOp>(store);
  auto waitBefore = [&](Operation *op, bool written) {
    OpBuilder here(op);
    made.waits.push_back(cta::TensorStoreWaitOp::create(here, loc, buffers, /*when=*/Value(),
                                                        /*later=*/0, written));
  };
  waitBefore(adds ? lastAllocBefore(store) : store, /*written=*/!adds);
  // What they release to other programs is in memory then.
  tileLoopOf(store).getBody()->walk([&](Operation *op) {
    if (ordersStores(op))
      waitBefore(op, /*written=*/true);
  });
  for (unsigned i = 0; i < pieces.count; ++i) {
    const Value buffer = buffers[i % buffers.size()];
    if (i >= buffers.size())
      cta::TensorStoreWaitOp::create(builder, loc, buffer, /*when=*/Value(),
                                     /*later=*/buffers.size() - 1, /*written=*/false);
    const Value piece =
        pieces.count == 1
            ? tile
            : cta::ExtractSliceOp::create(builder, loc, tile, pieces.along, pieces.count, i);
    cta::LocalStoreOp::create(builder, loc, piece, buffer);
    SmallVector<Value> at = coordinates;
    if (i > 0) {
      Value offset = arith::ConstantOp::create(
          builder, loc,
          builder.getIntegerAttr(at[along].getType(), i * pieces.buffer.getShape()[pieces.along]));
      at[along] = arith::AddIOp::create(builder, loc, at[along], offset);
    }
    cta::TensorStoreBlockOp::create(builder, loc, tensor.view, at, buffer, adds, extentsOf(store));
  }
  made.afterLoop = cta::TensorStoreWaitOp::create(after, loc, buffers, /*when=*/Value(),
                                                  /*later=*/0, /*written=*/false);
  tileLoopStores.push_back(made);
}

/// Gives the waits of stores in loops over tiles their condition: whether there was a store. Comes
/// after all stores are made, because it replaces the loops.
void EngineStores::predicateStoreWaits() {
  for (TileLoopStore &made : tileLoopStores) {
    Operation *each = made.branch ? made.branch.getOperation() : made.waits.front();
    OpBuilder builder(each->getContext());
    builder.setInsertionPointAfter(each);
    const Location loc = each->getLoc();
    Value stored = arith::ConstantIntOp::create(builder, loc, /*value=*/1, /*width=*/1);
    arith::OrIOp any;
    if (made.branch) // or in an iteration before
      stored = any = arith::OrIOp::create(builder, loc, stored, made.branch.getCondition());
    const CarriedValue isStored = carryThroughLoops(each, builder.getBoolAttr(false), stored);
    if (any)
      any.getLhsMutable().assign(isStored.before);
    for (cta::TensorStoreWaitOp wait : made.waits)
      wait.getWhenMutable().assign(isStored.before);
    made.afterLoop.getWhenMutable().assign(isStored.after);
  }
}

} // namespace sectile
