// cta.convert_layout: carries out the plan of the layout algebra.
#include "codegen/common/Conversions.h"
#include "codegen/common/SharedTile.h"
#include "codegen/common/Words.h"
#include "passes/analysis/SharedMemory.h"

using namespace mlir;

namespace sectile {

/// In lanes whose bit i is set, values r and r ^ swaps[i] change places.
static void swapByLane(KernelEmitter &emitter, MutableArrayRef<llvm::Value *> values,
                       ArrayRef<uint32_t> swaps) {
  llvm::IRBuilder<> &b = emitter.b;
  for (auto [bit, swap] : llvm::enumerate(swaps)) {
    if (!swap)
      continue;
    llvm::Value *isSet = b.CreateIsNotNull(b.CreateAnd(emitter.laneIndex(), uint64_t(1) << bit));
    for (unsigned reg = 0; reg < values.size(); ++reg) {
      unsigned other = reg ^ swap;
      if (reg > other)
        continue;
      llvm::Value *low = values[reg], *high = values[other];
      values[reg] = b.CreateSelect(isSet, high, low);
      values[other] = b.CreateSelect(isSet, low, high);
    }
  }
}

/// Values of one kind through one 32-bit word, or one value of any size.
static SmallVector<llvm::Value *> moveTogether(KernelEmitter &emitter,
                                               ArrayRef<llvm::Value *> values,
                                               function_ref<llvm::Value *(llvm::Value *)> move) {
  if (values.size() == 1)
    return {move(values.front())};
  llvm::IRBuilder<> &b = emitter.b;
  llvm::Type *type = values.front()->getType();
  SmallVector<llvm::Value *> elements;
  for (llvm::Value *value : values)
    elements.push_back(emitter.toMemory(value));
  llvm::Type *memoryType = elements.front()->getType();
  unsigned count = 32 / memoryType->getPrimitiveSizeInBits();
  elements.resize(count, llvm::PoisonValue::get(memoryType));
  llvm::Value *moved = move(packWords(b, elements, b.getInt32Ty()));
  SmallVector<llvm::Value *> results;
  unpackWords(b, moved, memoryType, count, results);
  results.truncate(values.size());
  for (llvm::Value *&result : results)
    result = emitter.fromMemory(result, type);
  return results;
}

/// The values of the plan's lean source to those of its lean destination, within warps.
static Registers exchange(KernelEmitter &emitter, const ConversionPlan &plan,
                          ArrayRef<llvm::Value *> source) {
  const ShufflePlan &shuffles = plan.shuffles;
  llvm::IRBuilder<> &b = emitter.b;
  bool identity = shuffles.laneMapIsIdentity();
  ThreadPart laneMap;
  if (!identity)
    laneMap = emitter.threadPart(shuffles.laneColumns, {});
  unsigned from = plan.source.coreRegisters(), to = plan.destination.coreRegisters();
  Registers results;
  for (unsigned repeat = 0; repeat < plan.source.numRepeats(); ++repeat) {
    SmallVector<llvm::Value *> sent(source.slice(repeat * from, from)), received(to);
    swapByLane(emitter, sent, shuffles.before);
    for (const ShufflePlan::Exchange &exchange : shuffles.exchanges) {
      SmallVector<llvm::Value *> values;
      for (unsigned reg : exchange.from)
        values.push_back(sent[reg]);
      if (!shuffles.staysInLane(exchange))
        values = moveTogether(emitter, values, [&](llvm::Value *value) {
          if (identity)
            return emitter.shuffleXor(value, exchange.laneXor);
          auto [variable, constant] = emitter.combine(laneMap, exchange.laneXor);
          llvm::Value *lane =
              variable ? b.CreateAdd(variable, b.getInt32(constant)) : b.getInt32(constant);
          return emitter.shuffle(value, lane);
        });
      for (auto [reg, value] : llvm::zip_equal(exchange.to, values))
        received[reg] = value;
    }
    swapByLane(emitter, received, shuffles.after);
    results.append(received);
  }
  return results;
}

void storeScratch(KernelEmitter &emitter, const ConversionPlan &plan,
                  ArrayRef<llvm::Value *> values, Type element, llvm::Value *scratch) {
  SmallVector<llvm::Value *> lean;
  for (unsigned reg : plan.sourceRegisters)
    lean.push_back(values[reg]);
  storeShared(emitter, lean, plan.source, plan.scratch.buffer, element, scratch);
}

Registers loadScratch(KernelEmitter &emitter, const ConversionPlan &plan, Type element,
                      llvm::Value *scratch) {
  return SharedReader(emitter, plan.destination, plan.scratch.buffer, element, scratch).all();
}

/// One repeat after the other through the same scratch.
static Registers takeTurns(KernelEmitter &emitter, const ConversionPlan &plan,
                           ArrayRef<llvm::Value *> source, Type element, llvm::Value *scratch) {
  auto barrier = [&] {
    if (plan.scratch.withinWarps)
      emitter.hooks.warpBarrier(emitter.b);
    else
      emitter.barrier();
  };
  Layout from = coreOf(plan.source), to = coreOf(plan.destination);
  Registers results;
  for (unsigned repeat = 0; repeat < plan.source.numRepeats(); ++repeat) {
    if (repeat)
      barrier();
    storeShared(emitter, source.slice(repeat * from.numRegisters(), from.numRegisters()), from,
                plan.scratch.buffer, element, scratch);
    barrier();
    results.append(SharedReader(emitter, to, plan.scratch.buffer, element, scratch).all());
  }
  return results;
}

LogicalResult emitConvertLayout(KernelEmitter &emitter, cta::ConvertLayoutOp op) {
  ConversionPlan plan = planOf(op);
  Registers &given = emitter.registers(op.getSource());
  Registers result;
  auto finish = [&](const Registers &lean) {
    for (unsigned reg : plan.destinationRegisters)
      result.push_back(lean[reg]);
    emitter.define(op, std::move(result));
    return success();
  };
  if (plan.kind == ConversionPlan::Kind::None || plan.kind == ConversionPlan::Kind::Registers) {
    for (unsigned reg : plan.registers)
      result.push_back(given[reg]);
    emitter.define(op, std::move(result));
    return success();
  }
  Type element = tile::elementType(op.getType());
  if (plan.kind == ConversionPlan::Kind::Shuffles) {
    SmallVector<llvm::Value *> lean;
    for (unsigned reg : plan.sourceRegisters)
      lean.push_back(given[reg]);
    return finish(exchange(emitter, plan, lean));
  }
  auto offset = sharedOffset(op);
  if (!offset)
    return op.emitError("needs scratch in shared memory, which has not been placed");
  llvm::Value *scratch = emitter.sharedAddress(*offset);
  if (plan.scratch.repeatsTakeTurns) {
    SmallVector<llvm::Value *> lean;
    for (unsigned reg : plan.sourceRegisters)
      lean.push_back(given[reg]);
    return finish(takeTurns(emitter, plan, lean, element, scratch));
  }
  storeScratch(emitter, plan, given, element, scratch);
  if (plan.scratch.withinWarps)
    emitter.hooks.warpBarrier(emitter.b);
  else
    emitter.barrier();
  return finish(loadScratch(emitter, plan, element, scratch));
}

} // namespace sectile
