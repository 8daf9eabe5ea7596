// tile.atomic_rmw and tile.atomic_cas.
//
// Of the threads that hold the same element one does the operation, relaxed. What order there is to
// be comes from fences around it, one for all elements of a thread, and from barriers: the block's
// threads have written before one of them releases, and read after one has acquired.
#include "codegen/common/Atomics.h"
#include "codegen/common/Conversions.h"
#include "passes/analysis/SharedMemory.h"

using namespace mlir;

namespace sectile {

/// A scalar from the first thread to all, through shared memory.
static llvm::Value *throughScratch(KernelEmitter &emitter, llvm::Value *value, int64_t offset,
                                   llvm::Value *writer) {
  llvm::IRBuilder<> &b = emitter.b;
  llvm::Type *type = value->getType();
  llvm::Value *stored = emitter.toMemory(value);
  llvm::Value *address = emitter.sharedAddress(offset);
  llvm::Function *kernel = b.GetInsertBlock()->getParent();
  auto *inside = llvm::BasicBlock::Create(b.getContext(), "write", kernel);
  auto *after = llvm::BasicBlock::Create(b.getContext(), "written", kernel);
  b.CreateCondBr(writer, inside, after);
  b.SetInsertPoint(inside);
  b.CreateAlignedStore(stored, address, llvm::Align(8));
  b.CreateBr(after);
  b.SetInsertPoint(after);
  emitter.barrier();
  return emitter.fromMemory(b.CreateAlignedLoad(stored->getType(), address, llvm::Align(8)), type);
}

LogicalResult shareResult(KernelEmitter &emitter, Operation *op, Registers &values) {
  SharingPlan plan = sharingPlanOf(op);
  if (plan.kind == SharingPlan::Kind::None)
    return success();
  llvm::IRBuilder<> &b = emitter.b;
  Type type = op->getResult(0).getType();
  const Layout *layout = cta::layoutOf(type);
  if (plan.kind == SharingPlan::Kind::Lanes) {
    uint32_t free = layout ? layout->freeBits(In::Lane) : emitter.target.warpSize - 1;
    llvm::Value *from = b.CreateAnd(emitter.laneIndex(), ~free & (emitter.target.warpSize - 1));
    ArrayRef<unsigned> first;
    if (layout)
      first = emitter.firstCopies(*layout);
    for (auto [reg, value] : llvm::enumerate(values))
      value =
          !first.empty() && first[reg] < reg ? values[first[reg]] : emitter.shuffle(value, from);
    return success();
  }
  auto offset = sharedOffset(op);
  if (!offset)
    return op->emitError("needs scratch in shared memory, which has not been placed");
  if (!layout) {
    values.front() = throughScratch(emitter, values.front(), *offset, emitter.isWriter(type));
    return success();
  }
  Type element = tile::elementType(type);
  llvm::Value *scratch = emitter.sharedAddress(*offset);
  storeScratch(emitter, plan.conversion, values, element, scratch);
  emitter.barrier();
  Registers lean = loadScratch(emitter, plan.conversion, element, scratch);
  values.clear();
  for (unsigned reg : plan.conversion.destinationRegisters)
    values.push_back(lean[reg]);
  return success();
}

/// Does `one` for every register whose element this thread is the one to work on, or for the first
/// of `together` such registers; it adds their results.
template <typename Op, typename One>
static LogicalResult emitEach(KernelEmitter &emitter, Op op, unsigned together, One one) {
  llvm::IRBuilder<> &b = emitter.b;
  const TargetHooks &hooks = emitter.hooks;
  tile::Order order = op.getOrder();
  if (order == tile::Order::Release || order == tile::Order::AcquireRelease) {
    emitter.memoryBarrier();
    hooks.fence(b, llvm::AtomicOrdering::Release, op.getScope());
  }
  Type type = op.getType();
  ArrayRef<unsigned> first;
  if (const Layout *layout = cta::layoutOf(type))
    first = emitter.firstCopies(*layout);
  llvm::Value *writer = emitter.isWriter(type);
  Registers &pointers = emitter.registers(op.getPtr());
  Registers *masks = op.getMask() ? &emitter.registers(op.getMask()) : nullptr;
  AtomicAccess access;
  access.scope = op.getScope();
  Registers results;
  for (unsigned reg = 0; reg < pointers.size(); reg += together) {
    if (!first.empty() && first[reg] < reg) {
      for (unsigned i = 0; i < together; ++i)
        results.push_back(results[first[reg + i]]);
      continue;
    }
    access.pointer = pointers[reg];
    access.predicate = masks ? (*masks)[reg] : nullptr;
    if (writer)
      access.predicate = access.predicate ? b.CreateAnd(writer, access.predicate) : writer;
    one(access, reg, results);
  }
  if (order == tile::Order::Acquire || order == tile::Order::AcquireRelease) {
    hooks.fence(b, llvm::AtomicOrdering::Acquire, op.getScope());
    emitter.memoryBarrier();
  }
  if (failed(shareResult(emitter, op, results)))
    return failure();
  emitter.define(op.getResult(), std::move(results));
  return success();
}

LogicalResult emitAtomic(KernelEmitter &emitter, tile::AtomicRMWOp op) {
  llvm::IRBuilder<> &b = emitter.b;
  Registers &given = emitter.registers(op.getValue());
  unsigned together = op.getVector().value_or(1);
  return emitEach(
      emitter, op, together, [&](const AtomicAccess &access, unsigned reg, Registers &results) {
        auto update = [&](llvm::Value *value) {
          return emitter.hooks.atomicUpdate(b, access, op.getKind(), value);
        };
        if (together == 1) {
          results.push_back(update(given[reg]));
          return;
        }
        llvm::Type *element = given[reg]->getType();
        llvm::Value *all = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, together));
        for (unsigned i = 0; i < together; ++i)
          all = b.CreateInsertElement(all, given[reg + i], i);
        all = update(all);
        for (unsigned i = 0; i < together; ++i)
          results.push_back(b.CreateExtractElement(all, i));
      });
}

LogicalResult emitAtomic(KernelEmitter &emitter, tile::AtomicCasOp op) {
  llvm::IRBuilder<> &b = emitter.b;
  Registers &expected = emitter.registers(op.getExpected());
  Registers &given = emitter.registers(op.getValue());
  return emitEach(emitter, op, 1,
                  [&](const AtomicAccess &access, unsigned reg, Registers &results) {
                    llvm::Type *type = given[reg]->getType();
                    llvm::Type *bits = b.getIntNTy(type->getPrimitiveSizeInBits());
                    llvm::Value *before = b.CreateBitCast(expected[reg], bits);
                    llvm::Value *value = b.CreateBitCast(given[reg], bits);
                    llvm::Value *found = emitter.hooks.atomicExchange(b, access, before, value);
                    results.push_back(b.CreateBitCast(found, type));
                  });
}

} // namespace sectile
