// Shared buffers: where they are, reads and writes of whole tiles, asynchronous copies.
#include "codegen/common/Buffers.h"
#include "codegen/common/SharedTile.h"
#include "codegen/common/Words.h"
#include "ir/layout/TensorBoxes.h"
#include "passes/analysis/Clusters.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/analysis/Warps.h"

using namespace mlir;

namespace sectile {

static FailureOr<llvm::Value *> placeOf(KernelEmitter &emitter, Operation *op) {
  auto offset = sharedOffset(op);
  if (!offset)
    return op->emitError("has no place in shared memory yet");
  return emitter.sharedAddress(*offset);
}

static void store(KernelEmitter &emitter, Value tile, cta::BufferType buffer,
                  llvm::Value *address) {
  storeShared(emitter, emitter.registers(tile), *cta::layoutOf(tile.getType()),
              buffer.getLayout().getLayout(), buffer.getElement(), address);
}

LogicalResult emitAlloc(KernelEmitter &emitter, cta::AllocOp op) {
  auto address = placeOf(emitter, op);
  if (failed(address))
    return failure();
  if (op.getInit())
    store(emitter, op.getInit(), op.getType(), *address);
  emitter.define(op, {*address});
  return success();
}

LogicalResult emitChannel(KernelEmitter &emitter, cta::ChannelOp op) {
  auto address = placeOf(emitter, op);
  if (failed(address))
    return failure();
  emitter.define(op, {*address});
  return success();
}

void emitSlot(KernelEmitter &emitter, cta::SlotOp op) {
  llvm::IRBuilder<> &b = emitter.b;
  uint64_t bytes = op.getChannel().getType().getSlotBytes();
  llvm::Value *offset = b.CreateMul(emitter.scalar(op.getIndex()), b.getInt32(bytes), "",
                                    /*HasNUW=*/true, /*HasNSW=*/true);
  emitter.define(op, {b.CreateInBoundsGEP(b.getInt8Ty(), emitter.scalar(op.getChannel()), offset)});
}

void emitRing(KernelEmitter &emitter, cta::RingAdvanceOp op) {
  llvm::IRBuilder<> &b = emitter.b;
  const uint32_t slots = op.getSlots();
  llvm::Value *sum =
      b.CreateAdd(emitter.scalar(op.getPosition()), b.getInt32(cta::positionOf(op.getBy(), slots)));
  if (!llvm::isPowerOf2_32(slots)) {
    llvm::Value *isOver = b.CreateICmpUGE(b.CreateAnd(sum, b.getInt32((1 << cta::roundShift) - 1)),
                                          b.getInt32(slots));
    llvm::Value *next = b.CreateAdd(sum, b.getInt32((1 << cta::roundShift) - slots));
    sum = b.CreateSelect(isOver, next, sum);
  }
  emitter.define(op, {sum});
}
void emitRing(KernelEmitter &emitter, cta::RingSlotOp op) {
  llvm::IRBuilder<> &b = emitter.b;
  const uint32_t slots = op.getSlots(),
                 mask = llvm::isPowerOf2_32(slots) ? slots - 1 : (1 << cta::roundShift) - 1;
  emitter.define(op, {b.CreateAnd(emitter.scalar(op.getPosition()), b.getInt32(mask))});
}
void emitRing(KernelEmitter &emitter, cta::RingParityOp op) {
  llvm::IRBuilder<> &b = emitter.b;
  const uint32_t slots = op.getSlots(),
                 shift = llvm::isPowerOf2_32(slots) ? llvm::Log2_32(slots) : cta::roundShift;
  llvm::Value *round = b.CreateLShr(emitter.scalar(op.getPosition()), shift);
  if (op.getBefore())
    round = b.CreateAdd(round, b.getInt32(1));
  emitter.define(op, {b.CreateAnd(round, b.getInt32(1))});
}

void emitLocalLoad(KernelEmitter &emitter, cta::LocalLoadOp op) {
  cta::BufferType buffer = op.getBuffer().getType();
  SharedReader reader(emitter, *cta::layoutOf(op.getType()), buffer.getLayout().getLayout(),
                      buffer.getElement(), emitter.scalar(op.getBuffer()));
  emitter.define(op, reader.all());
}

void emitLocalStore(KernelEmitter &emitter, cta::LocalStoreOp op) {
  store(emitter, op.getValue(), op.getBuffer().getType(), emitter.scalar(op.getBuffer()));
}

//===-- Asynchronous copies -------------------------------------------------------------------===//

/// Whether `vector` consecutive registers lie at consecutive offsets, from every multiple of it on.
static bool isContiguous(const Layout &distributed, const Layout &buffer, unsigned vector) {
  PlaceMap map = PlaceMap::compose(distributed, buffer);
  for (unsigned bit = 0; bit < map.bits(In::Register); ++bit) {
    uint32_t image = map.basis(In::Register, bit)[In::Offset];
    if (1u << bit < vector ? image != 1u << bit : (image & (vector - 1)) != 0)
      return false;
  }
  for (In in : {In::Lane, In::Warp})
    for (unsigned bit = 0; bit < map.bits(in); ++bit)
      if (map.basis(in, bit)[In::Offset] & (vector - 1))
        return false;
  return true;
}

LogicalResult emitAsyncCopy(KernelEmitter &emitter, cta::AsyncCopyOp op) {
  llvm::IRBuilder<> &b = emitter.b;
  cta::BufferType buffer = op.getBuffer().getType();
  const Layout &shared = buffer.getLayout().getLayout();
  const Layout &layout = *cta::layoutOf(op.getPtr().getType());
  unsigned vector = op.getVector().value_or(1);
  if (!isContiguous(layout, shared, vector))
    return op.emitError("vectors of ") << vector << " elements are not contiguous in the buffer";
  llvm::Type *element = emitter.memoryTypeOf(buffer.getElement());
  unsigned elementBytes = element->getPrimitiveSizeInBits() / 8, bytes = vector * elementBytes;
  bool isAsync = emitter.target.asyncCopy && (bytes == 4 || bytes == 8 || bytes == 16);

  Registers &pointers = emitter.registers(op.getPtr());
  Registers *masks = op.getMask() ? &emitter.registers(op.getMask()) : nullptr;
  SharedPlaces places(emitter, layout, shared, elementBytes, emitter.scalar(op.getBuffer()));
  ArrayRef<unsigned> first = emitter.firstCopies(layout);
  ThreadAccess access;
  access.align = llvm::Align(bytes);
  access.cache = op.getCache();
  access.eviction = op.getEviction();
  auto forAll = [&](function_ref<void(unsigned)> copy) {
    for (unsigned reg = 0; reg < layout.numRegisters(); reg += vector)
      if (first.empty() || first[reg] == reg) {
        access.pointer = pointers[reg];
        access.predicate = masks ? (*masks)[reg] : nullptr;
        copy(reg);
      }
  };
  // Of threads that hold the same, one copies.
  llvm::Value *copies = emitter.isWriter(layout);
  if (op.getFilled()) {
    llvm::Value *filled = emitter.scalar(op.getFilled());
    copies = copies ? b.CreateAnd(copies, filled) : filled;
  }
  emitter.under(copies, [&] {
    if (isAsync) {
      forAll([&](unsigned reg) { emitter.hooks.asyncCopy(b, access, places.address(reg), bytes); });
      return;
    }
    // Copies of other sizes go through registers: all are read before the first is written.
    llvm::Type *words = wordsOf(element, vector);
    SmallVector<std::pair<unsigned, llvm::Value *>> loaded;
    forAll([&](unsigned reg) {
      llvm::Value *zero = llvm::Constant::getNullValue(words);
      loaded.push_back({reg, emitter.hooks.load(b, access, words, zero)});
    });
    for (auto [reg, value] : loaded)
      b.CreateAlignedStore(value, places.address(reg), llvm::Align(bytes));
  });
  return success();
}

//===-- The copy engine -----------------------------------------------------------------------===//

/// One thread of the block does what `emit` makes, where `when` holds if there is such a condition.
static void byOneThread(KernelEmitter &emitter, llvm::Value *when,
                        llvm::function_ref<void()> emit) {
  llvm::IRBuilder<> &b = emitter.b;
  if (emitter.isForOneThread())
    return emitter.under(when, emit);
  llvm::Value *chosen = b.CreateICmpEQ(emitter.threadIndex(), b.getInt32(0));
  if (when)
    chosen = b.CreateAnd(chosen, when);
  llvm::Function *kernel = b.GetInsertBlock()->getParent();
  auto *inside = llvm::BasicBlock::Create(b.getContext(), "one", kernel);
  auto *after = llvm::BasicBlock::Create(b.getContext(), "all", kernel);
  b.CreateCondBr(chosen, inside, after);
  b.SetInsertPoint(inside);
  emit();
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

static llvm::Value *mbarrierAt(KernelEmitter &emitter, Value barriers, llvm::Value *index) {
  llvm::IRBuilder<> &b = emitter.b;
  return b.CreateInBoundsGEP(b.getInt64Ty(), emitter.scalar(barriers), index);
}

LogicalResult emitMbarriers(KernelEmitter &emitter, cta::MbarriersOp op) {
  auto address = placeOf(emitter, op);
  if (failed(address))
    return failure();
  emitter.define(op, {*address});
  byOneThread(emitter, nullptr, [&] {
    for (unsigned i = 0; i < op.getType().getCount(); ++i)
      emitter.hooks.mbarrierInit(emitter.b, mbarrierAt(emitter, op, emitter.b.getInt32(i)),
                                 op.getArrivals());
    // The engine finds them through a proxy of its own.
    emitter.hooks.proxyFence(emitter.b);
    if (clusterOf(op->getParentOfType<func::FuncOp>()) > 1)
      emitter.hooks.mbarriersFence(emitter.b);
  });
  return success();
}

void emitMbarrierWait(KernelEmitter &emitter, cta::MbarrierWaitOp op) {
  emitter.hooks.mbarrierWait(emitter.b,
                             mbarrierAt(emitter, op.getBarriers(), emitter.scalar(op.getIndex())),
                             emitter.scalar(op.getParity()));
}

/// Whether lanes read what is released, each for itself. Matrix instructions that read shared
/// memory have done so for all lanes once these have waited for them.
static bool isReadByLanes(cta::MbarrierArriveOp arrive, const Target &target) {
  Operation *partition = partitionOf(arrive);
  auto isRead = [&](auto &self, Value buffer) -> bool {
    return llvm::any_of(buffer.getUsers(), [&](Operation *user) {
      if (auto permute = dyn_cast<cta::PermuteBufferOp>(user))
        return self(self, permute.getResult());
      return partitionOf(user) == partition && !isThroughProxy(user, target) &&
             llvm::any_of(bufferAccesses(user), [](const BufferAccess &access) {
               return access.kind == BufferAccess::Read;
             });
    });
  };
  // Another value may stand for the same slot.
  return llvm::any_of(arrive.getBuffers(), [&](Value buffer) {
    Operation *ring = originOf(buffer).owner;
    return llvm::any_of(ring->getUsers(), [&](Operation *user) {
      return isa<cta::SlotOp>(user) && isRead(isRead, user->getResult(0));
    });
  });
}

void emitMbarrierArrive(KernelEmitter &emitter, cta::MbarrierArriveOp op) {
  llvm::IRBuilder<> &b = emitter.b;
  llvm::Value *barrier = mbarrierAt(emitter, op.getBarriers(), emitter.scalar(op.getIndex()));
  const bool isRead = isReadByLanes(op, emitter.target);
  // The engine writes the slot next, through another proxy: without a fence a read that is under
  // way may get what it writes. One did, on an H100, beside dots that kept shared memory busy.
  if (isRead)
    emitter.hooks.proxyFence(b);
  // One lane says what all of them did.
  if (op.getWritten() || isRead)
    emitter.hooks.warpBarrier(b);
  llvm::Value *isFirst = b.CreateIsNull(emitter.laneIndex());
  if (op.getWhen())
    isFirst = b.CreateAnd(isFirst, emitter.scalar(op.getWhen()));
  emitter.under(isFirst, [&] { emitter.hooks.mbarrierArrive(b, barrier); });
}

void emitMbarrierSignal(KernelEmitter &emitter, cta::MbarrierSignalOp op) {
  llvm::IRBuilder<> &b = emitter.b;
  llvm::Value *barrier = mbarrierAt(emitter, op.getBarriers(), emitter.scalar(op.getIndex()));
  if (emitter.isForOneThread())
    return emitter.hooks.mbarrierArrive(b, barrier);
  // One lane says that all of them have come.
  emitter.hooks.warpBarrier(b);
  emitter.under(b.CreateIsNull(emitter.laneIndex()),
                [&] { emitter.hooks.mbarrierArrive(b, barrier); });
}

void emitClusterBarrier(KernelEmitter &emitter) { emitter.hooks.clusterBarrier(emitter.b); }

void emitClusterAcquire(KernelEmitter &emitter, cta::ClusterAcquireOp op) {
  llvm::IRBuilder<> &b = emitter.b;
  llvm::Value *barrier = mbarrierAt(emitter, op.getBarriers(), emitter.scalar(op.getIndex()));
  llvm::Value *parity = emitter.scalar(op.getParity());
  byOneThread(emitter, op.getWhen() ? emitter.scalar(op.getWhen()) : nullptr, [&] {
    llvm::Value *other = b.CreateXor(emitter.hooks.clusterRank(b), 1);
    emitter.hooks.mbarrierArriveAt(b, barrier, other);
    emitter.hooks.mbarrierWait(b, barrier, parity);
  });
}

/// For each box of a buffer, its coordinates and where it lies in shared memory.
template <class Op>
static void forEachBox(KernelEmitter &emitter, Op op, bool isShared,
                       llvm::function_ref<void(ArrayRef<llvm::Value *>, llvm::Value *)> emit) {
  llvm::IRBuilder<> &b = emitter.b;
  const cta::BufferType buffer = op.getBuffer().getType();
  TensorBoxes boxes = *planTensorBoxes(buffer.getLayout().getLayout(), cta::elementBits(buffer));
  SmallVector<llvm::Value *> start = llvm::map_to_vector(
      op.getCoordinates(), [&](Value coordinate) { return emitter.scalar(coordinate); });
  llvm::Value *first = emitter.scalar(op.getBuffer());
  if (isShared) {
    const TensorBoxes::Half half = *boxes.half();
    llvm::Value *rank = emitter.hooks.clusterRank(b);
    auto ofBlock = [&](int64_t step) { return b.CreateMul(rank, b.getInt32(step)); };
    boxes = half.first;
    start[0] = b.CreateAdd(start[0], ofBlock(half.second.along));
    start[1] = b.CreateAdd(start[1], ofBlock(half.second.across));
    first = b.CreateInBoundsGEP(b.getInt8Ty(), first, ofBlock(half.second.offset));
  }
  for (const TensorBoxes::Box &box : boxes.boxes) {
    SmallVector<llvm::Value *> coordinates(start);
    coordinates[0] = b.CreateAdd(start[0], b.getInt32(box.along));
    if (box.across != 0)
      coordinates[1] = b.CreateAdd(start[1], b.getInt32(box.across));
    emit(coordinates, b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), first, box.offset));
  }
}

void emitTensorCopy(KernelEmitter &emitter, cta::TensorCopyOp op) {
  llvm::IRBuilder<> &b = emitter.b;
  llvm::Value *barrier = mbarrierAt(emitter, op.getBarriers(), emitter.scalar(op.getIndex()));
  byOneThread(emitter, op.getWhen() ? emitter.scalar(op.getWhen()) : nullptr, [&] {
    llvm::Value *filled = op.getFilled() ? emitter.scalar(op.getFilled()) : nullptr;
    if (op.getExpects()) {
      llvm::Value *bytes = b.getInt32(op.getExpects());
      emitter.hooks.mbarrierExpect(b, barrier,
                                   filled ? b.CreateSelect(filled, bytes, b.getInt32(0)) : bytes);
    }
    emitter.under(filled, [&] {
      forEachBox(emitter, op, op.getShared(),
                 [&](ArrayRef<llvm::Value *> coordinates, llvm::Value *to) {
                   emitter.hooks.tensorCopy(b, emitter.scalar(op.getMap()), coordinates, to,
                                            barrier, op.getShared());
                 });
    });
  });
}

void emitTensorStore(KernelEmitter &emitter, cta::TensorStoreOp op) {
  llvm::IRBuilder<> &b = emitter.b;
  byOneThread(emitter, nullptr, [&] {
    forEachBox(emitter, op, /*isShared=*/false,
               [&](ArrayRef<llvm::Value *> coordinates, llvm::Value *from) {
                 emitter.hooks.tensorStore(b, emitter.scalar(op.getMap()), coordinates, from,
                                           op.getAdds());
               });
    emitter.hooks.tensorStoresCommit(b);
  });
}

} // namespace sectile
