// What operations do to shared memory: which of them occupy it, and what each reads and writes.
#include "passes/analysis/SharedMemory.h"
#include "ir/MmaElements.h"
#include "ir/layout/Builders.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "passes/Kernel.h"
#include "passes/analysis/Blocks.h"
#include "passes/analysis/Warps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace sectile {

ConversionPlan planOf(cta::ConvertLayoutOp convert) {
  return planConversion(*cta::layoutOf(convert.getSource().getType()),
                        *cta::layoutOf(convert.getType()), cta::elementBits(convert.getType()),
                        {.banks = banksOf(convert)});
}

GatherPlan planOf(tile::ReduceOp reduce) {
  GatherPlan plan;
  const Layout *layout = cta::layoutOf(reduce.getSources()[0].getType());
  plan.reduction = planReduction(*layout, reduce.getAxis());
  if (plan.reduction.numPartials == 1)
    return plan;
  for (Value source : reduce.getSources()) {
    ConversionPlan conversion =
        planConversion(plan.reduction.partial, plan.reduction.gathered,
                       cta::elementBits(source.getType()), {.banks = banksOf(reduce)});
    plan.offsets.push_back(plan.bytes);
    if (conversion.kind == ConversionPlan::Kind::Scratch)
      plan.bytes += llvm::alignTo(conversion.scratch.bytes, 16);
    plan.conversions.push_back(std::move(conversion));
  }
  return plan;
}

bool isDoneOnce(Operation *op) {
  return isVolatileLoad(op) || isa<tile::AtomicRMWOp, tile::AtomicCasOp, tile::AtomicBlockOp>(op);
}

SharingPlan sharingPlanOf(Operation *op) {
  SharingPlan plan;
  Value result = op->getResult(0);
  if (result.use_empty())
    return plan;
  const Layout *layout = cta::layoutOf(result.getType());
  if (!layout) {
    bool oneWarp = warpsOf(op) == 1;
    plan.kind = oneWarp ? SharingPlan::Kind::Lanes : SharingPlan::Kind::Scratch;
    plan.bytes = oneWarp ? 0 : 16;
    return plan;
  }
  uint32_t lanes = layout->freeBits(In::Lane);
  if (!lanes && !layout->freeBits(In::Warp))
    return plan;
  // Lanes that differ only in bits without meaning hold the same in the same registers.
  bool sameRegisters = llvm::all_of(llvm::enumerate(layout->packed(In::Lane)), [&](auto bit) {
    return !(lanes >> bit.index() & 1) || bit.value() == 0;
  });
  if (!layout->freeBits(In::Warp) && sameRegisters) {
    plan.kind = SharingPlan::Kind::Lanes;
    return plan;
  }
  plan.kind = SharingPlan::Kind::Scratch;
  ConversionPlan &conversion = plan.conversion;
  conversion.kind = ConversionPlan::Kind::Scratch;
  conversion.source = conversion.destination = layout->withoutDuplicateRegisters();
  conversion.sourceRegisters = *registersInThread(*layout, conversion.source);
  conversion.destinationRegisters = *registersInThread(conversion.destination, *layout);
  const ConversionOptions options{.banks = banksOf(op),
                                  .maxScratchBytes = std::numeric_limits<unsigned>::max()};
  conversion.scratch = planScratch(conversion.source, conversion.destination,
                                   cta::elementBits(result.getType()), options);
  plan.bytes = conversion.scratch.bytes;
  return plan;
}

std::optional<ScanScratch> planOf(tile::ScanOp scan) {
  const Layout *layout = cta::layoutOf(scan.getSources()[0].getType());
  std::optional<ScanPlan> plan = layout ? planScan(*layout, scan.getAxis()) : std::nullopt;
  if (!plan)
    return std::nullopt;
  ScanScratch result{*std::move(plan), {}, 0};
  for (Value source : scan.getSources()) {
    result.offsets.push_back(result.bytes);
    int64_t slots = result.plan.totals.size() * result.plan.slotsPerTotal;
    result.bytes += llvm::alignTo(slots * cta::elementBytes(source.getType()), 16);
  }
  return result;
}

bool staysInThreads(tile::ReshapeOp reshape) {
  auto from = reshape.getSource().getType(), to = reshape.getType();
  if (const Layout *layout = cta::layoutOf(from))
    return layout->reshape(to.getShape()).has_value();
  auto order = llvm::to_vector(llvm::seq<unsigned>(0, from.getRank()));
  return sharedPlain(from.getShape(), order).reshape(to.getShape()).has_value();
}

static int64_t bytesOf(Type tile) {
  return cast<RankedTensorType>(tile).getNumElements() * cta::elementBytes(tile);
}

Scratch scratchOf(Operation *op) {
  auto acrossWarps = [](int64_t bytes) { return Scratch{bytes, bytes != 0}; };
  return llvm::TypeSwitch<Operation *, Scratch>(op)
      .Case([&](cta::ConvertLayoutOp convert) {
        ConversionPlan plan = planOf(convert);
        return plan.kind == ConversionPlan::Kind::Scratch
                   ? Scratch{plan.scratch.bytes, !plan.scratch.withinWarps}
                   : Scratch{};
      })
      .Case([&](tile::ReduceOp reduce) { return acrossWarps(planOf(reduce).bytes); })
      .Case([&](tile::ScanOp scan) {
        std::optional<ScanScratch> plan = planOf(scan);
        return acrossWarps(plan ? plan->bytes : 0);
      })
      .Case(
          [&](tile::GatherOp gather) { return acrossWarps(bytesOf(gather.getSource().getType())); })
      .Case([&](tile::HistogramOp histogram) { return acrossWarps(bytesOf(histogram.getType())); })
      .Case([&](tile::ReshapeOp reshape) {
        return acrossWarps(staysInThreads(reshape) ? 0 : bytesOf(reshape.getType()));
      })
      // The place that one thread got, for all of them.
      .Case([&](cta::RecordOp) { return acrossWarps(sizeof(uint64_t)); })
      .Default([&](Operation *other) {
        return acrossWarps(isDoneOnce(other) ? sharingPlanOf(other).bytes : 0);
      });
}

int64_t scratchIn(Operation *around, const DenseSet<Operation *> &without) {
  int64_t bytes = 0;
  around->walk([&](Operation *op) {
    if (!without.contains(op))
      bytes = std::max(bytes, scratchOf(op).bytes);
  });
  return bytes;
}

int64_t sharedBytes(Operation *op) {
  if (auto alloc = dyn_cast<cta::AllocOp>(op))
    return alloc.getType().isShared() ? alloc.getType().getBytes() : 0;
  if (auto channel = dyn_cast<cta::ChannelOp>(op))
    return channel.getType().getBytes();
  if (auto barriers = dyn_cast<cta::MbarriersOp>(op))
    return barriers.getType().getBytes();
  return scratchOf(op).bytes;
}

std::optional<int64_t> sharedOffset(Operation *op) {
  if (auto offset = op->getAttrOfType<IntegerAttr>(cta::offsetAttr))
    return offset.getInt();
  return std::nullopt;
}

void setSharedOffset(Operation *op, int64_t offset) {
  op->setAttr(cta::offsetAttr, Builder(op->getContext()).getI32IntegerAttr(offset));
}

BufferOrigin originOf(Value buffer) {
  while (auto permute = buffer.getDefiningOp<cta::PermuteBufferOp>())
    buffer = permute.getSource();
  Operation *op = buffer.getDefiningOp();
  if (!op || isa<cta::AllocOp>(op))
    return {op, {}, buffer};
  if (auto slot = dyn_cast<cta::SlotOp>(op))
    return {slot.getChannel().getDefiningOp(), slot.getIndex(), buffer};
  if (auto acquire = dyn_cast<cta::AcquireOp>(op))
    return {acquire.getChannel().getDefiningOp(), {}, buffer};
  if (auto wait = dyn_cast<cta::WaitOp>(op))
    return {
        wait.getChannels()[cast<OpResult>(buffer).getResultNumber()].getDefiningOp(), {}, buffer};
  return {nullptr, {}, buffer};
}

bool isFilledByProducer(Value buffer) {
  auto channel = dyn_cast_if_present<cta::ChannelOp>(originOf(buffer).owner);
  return channel && channel.getBetweenWarps();
}

SmallVector<BufferAccess, 2> bufferAccesses(Operation *op) {
  SmallVector<BufferAccess, 2> accesses;
  auto add = [&](BufferAccess::Kind kind, Value buffer) {
    if (cast<cta::BufferType>(buffer.getType()).isShared())
      accesses.push_back({kind, originOf(buffer)});
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](cta::AllocOp alloc) {
        if (alloc.getInit())
          add(BufferAccess::Write, alloc);
      })
      // One thread makes them.
      .Case([&](cta::MbarriersOp barriers) {
        accesses.push_back({BufferAccess::Write, {barriers, {}, {}}});
      })
      .Case([&](cta::LocalLoadOp load) { add(BufferAccess::Read, load.getBuffer()); })
      .Case([&](cta::LocalStoreOp store) { add(BufferAccess::Write, store.getBuffer()); })
      .Case<cta::AsyncCopyOp, cta::AsyncCopyBlockOp>(
          [&](auto copy) { add(BufferAccess::AsyncWrite, copy.getBuffer()); })
      .Case<cta::TensorCopyOp, cta::TensorCopyBlockOp>(
          [&](auto copy) { add(BufferAccess::EngineWrite, copy.getBuffer()); })
      .Case([&](cta::ClusterAcquireOp acquire) {
        for (Value buffer : acquire.getBuffers())
          add(BufferAccess::EngineWrite, buffer);
      })
      .Case([&](cta::ClusterBarrierOp barrier) {
        for (Value channel : barrier.getChannels())
          accesses.push_back({BufferAccess::EngineWrite, {channel.getDefiningOp(), {}, {}}});
      })
      .Case<cta::TensorStoreOp, cta::TensorStoreBlockOp>(
          [&](auto store) { add(BufferAccess::Read, store.getBuffer()); })
      // Until then the engine may read them.
      .Case([&](cta::TensorStoreWaitOp wait) {
        for (Value buffer : wait.getBuffers())
          add(BufferAccess::Read, buffer);
      })
      .Case<cta::DotOp, cta::DotStartOp>([&](auto dot) {
        for (Value operand : {dot.getA(), dot.getB()})
          if (isa<cta::BufferType>(operand.getType()))
            add(BufferAccess::Read, operand);
      });
  return accesses;
}

bool isThroughProxy(Operation *op, const Target &target) {
  const MmaInstruction *instruction = nullptr;
  if (auto dot = dyn_cast<cta::DotOp>(op))
    instruction = instructionOf(dot, target);
  else if (auto dot = dyn_cast<cta::DotStartOp>(op))
    instruction = instructionOf(dot, target);
  return isa<cta::TensorCopyOp, cta::TensorStoreOp, cta::ClusterAcquireOp, cta::ClusterBarrierOp>(
             op) ||
         (instruction && instruction->bHome != OperandHome::Registers);
}

std::optional<int64_t> constantInt(Value value) {
  APInt constant;
  if (value && matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  return std::nullopt;
}

std::optional<LinearCount> linearCount(Value count) {
  if (auto constant = constantInt(count))
    return *constant >= 0 ? std::optional(LinearCount{{}, unsigned(*constant)}) : std::nullopt;
  if (auto add = count.getDefiningOp<arith::AddIOp>()) {
    auto step = constantInt(add.getRhs());
    auto from = linearCount(add.getLhs());
    if (!step || *step < 0 || !from)
      return std::nullopt;
    return LinearCount{from->base, unsigned(from->offset + *step)};
  }
  if (auto advance = count.getDefiningOp<cta::RingAdvanceOp>()) {
    auto from = linearCount(advance.getPosition());
    return from ? std::optional(LinearCount{from->base, from->offset + advance.getBy()})
                : std::nullopt;
  }
  auto argument = dyn_cast<BlockArgument>(count);
  auto loop = argument ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp())
                       : count.getDefiningOp<scf::ForOp>();
  if (!loop || count == loop.getInductionVar())
    return std::nullopt;
  return LinearCount{count, 0};
}

llvm::SmallPtrSet<const void *, 8> countsOf(ArrayRef<Value> bases) {
  llvm::SmallPtrSet<const void *, 8> counts;
  SmallVector<Value> work;
  auto add = [&](Value base) {
    if (base && counts.insert(base.getAsOpaquePointer()).second)
      work.push_back(base);
  };
  llvm::for_each(bases, add);
  while (!work.empty()) {
    Value count = work.pop_back_val();
    auto argument = dyn_cast<BlockArgument>(count);
    auto loop = argument ? cast<scf::ForOp>(argument.getOwner()->getParentOp())
                         : count.getDefiningOp<scf::ForOp>();
    unsigned number =
        argument ? argument.getArgNumber() - 1 : cast<OpResult>(count).getResultNumber();
    add(loop.getRegionIterArg(number));
    for (Value other : {loop.getInitArgs()[number], loop.getYieldedValues()[number]})
      if (std::optional<LinearCount> linear = linearCount(other))
        add(linear->base);
  }
  return counts;
}

std::optional<LinearCount> ringPosition(Value slot, unsigned depth) {
  if (depth == 1)
    return LinearCount{};
  auto of = slot.getDefiningOp<cta::RingSlotOp>();
  auto position = linearCount(of ? of.getPosition() : slot);
  // Only a constant is a slot itself.
  if (!position || (!of && position->base))
    return std::nullopt;
  return LinearCount{position->base, position->offset % depth};
}

/// A ring's operation, or its constant result.
template <class RingOp, class... Attributes>
static Value ofRing(OpBuilder &builder, Location loc, Value position, Attributes... attributes) {
  auto op = RingOp::create(builder, loc, builder.getI32Type(), position, attributes...);
  auto known = constantInt(position);
  if (!known)
    return op;
  Value constant = arith::ConstantIntOp::create(builder, loc, op.resultOf(*known), 32);
  op.erase();
  return constant;
}

Value ringAdvance(OpBuilder &builder, Location loc, Value position, int64_t by, unsigned depth) {
  return ofRing<cta::RingAdvanceOp>(builder, loc, position, uint32_t(by), depth);
}
Value ringSlot(OpBuilder &builder, Location loc, Value position, unsigned depth) {
  return depth == 1 ? arith::ConstantIntOp::create(builder, loc, 0, 32).getResult()
                    : ofRing<cta::RingSlotOp>(builder, loc, position, depth);
}
Value ringParity(OpBuilder &builder, Location loc, Value position, unsigned depth, bool before) {
  return ofRing<cta::RingParityOp>(builder, loc, position, depth, before);
}

} // namespace sectile
