// tile.reduce: within threads, then between lanes, then between warps.
#include "codegen/common/Combiner.h"
#include "codegen/common/Conversions.h"
#include "passes/analysis/SharedMemory.h"

using namespace mlir;

namespace sectile {

namespace {

class Reducer {
public:
  Reducer(KernelEmitter &emitter, tile::ReduceOp op)
      : emitter(emitter), op(op), plan(planOf(op)), combine(emitter, op.getCombiner()),
        commutes(combine.isCommutative()) {}

  LogicalResult run() {
    if (failed(inThreads()) || failed(acrossLanes()) || failed(acrossWarps()))
      return failure();
    for (auto [i, result] : llvm::enumerate(op.getResults())) {
      const Layout *layout = cta::layoutOf(result.getType());
      Registers values;
      if (layout) {
        auto from = registersInThread(plan.reduction.result, *layout);
        if (!from)
          return op.emitError("the result's layout is not that of the reduction: ")
                 << layout->text() << " instead of " << plan.reduction.result.text();
        for (unsigned reg : *from)
          values.push_back(partials[reg][i]);
      } else {
        values.push_back(partials.front()[i]);
      }
      emitter.define(result, std::move(values));
    }
    return success();
  }

private:
  /// Neighbours first: a tree is shorter than a chain, and rounds less.
  FailureOr<Partial> combineAll(SmallVector<Partial> parts) {
    while (parts.size() > 1) {
      SmallVector<Partial> next;
      for (unsigned i = 0; i + 1 < parts.size(); i += 2) {
        auto both = combine(parts[i], parts[i + 1]);
        if (failed(both))
          return failure();
        next.push_back(*both);
      }
      if (parts.size() % 2)
        next.push_back(parts.back());
      parts = std::move(next);
    }
    return parts.front();
  }

  LogicalResult inThreads() {
    for (const auto &group : plan.reduction.registers) {
      SmallVector<Partial> parts;
      for (unsigned reg : group) {
        Partial &part = parts.emplace_back();
        for (Value source : op.getSources())
          part.push_back(emitter.registers(source)[reg]);
      }
      auto sum = combineAll(std::move(parts));
      if (failed(sum))
        return failure();
      partials.push_back(*sum);
    }
    return success();
  }

  LogicalResult acrossLanes() {
    llvm::IRBuilder<> &b = emitter.b;
    for (const ReductionPlan::LaneStep &step : plan.reduction.laneSteps) {
      // Both lanes must combine in the same order to get the same bits.
      llvm::Value *isRight = nullptr;
      if (!commutes)
        isRight = b.CreateIsNotNull(
            b.CreateAnd(emitter.laneIndex(), uint64_t(step.laneXor & -step.laneXor)));
      SmallVector<Partial> next;
      for (unsigned reg = 0; reg < partials.size(); ++reg) {
        Partial own = partials[reg], other;
        for (llvm::Value *value : partials[reg ^ step.registerXor])
          other.push_back(emitter.shuffleXor(value, step.laneXor));
        if (isRight)
          for (unsigned i = 0; i < own.size(); ++i) {
            llvm::Value *left = b.CreateSelect(isRight, other[i], own[i]);
            other[i] = b.CreateSelect(isRight, own[i], other[i]);
            own[i] = left;
          }
        auto both = combine(own, other);
        if (failed(both))
          return failure();
        next.push_back(*both);
      }
      partials = std::move(next);
    }
    return success();
  }

  LogicalResult acrossWarps() {
    if (plan.reduction.numPartials == 1)
      return success();
    auto offset = sharedOffset(op);
    if (!offset)
      return op.emitError("needs scratch in shared memory, which has not been placed");
    auto scratchOf = [&](unsigned source) {
      return emitter.sharedAddress(*offset + plan.offsets[source]);
    };
    auto elementOf = [&](unsigned source) {
      return tile::elementType(op.getSources()[source].getType());
    };
    for (const ConversionPlan &conversion : plan.conversions)
      if (conversion.kind != ConversionPlan::Kind::Scratch || conversion.scratch.repeatsTakeTurns)
        return op.emitError("partial results of the warps do not fit the scratch");
    for (auto [i, conversion] : llvm::enumerate(plan.conversions)) {
      Registers values;
      for (const Partial &partial : partials)
        values.push_back(partial[i]);
      storeScratch(emitter, conversion, values, elementOf(i), scratchOf(i));
    }
    emitter.barrier();
    SmallVector<Registers> gathered;
    for (auto [i, conversion] : llvm::enumerate(plan.conversions)) {
      Registers lean = loadScratch(emitter, conversion, elementOf(i), scratchOf(i));
      Registers &all = gathered.emplace_back();
      for (unsigned reg : conversion.destinationRegisters)
        all.push_back(lean[reg]);
    }
    for (auto [reg, group] : llvm::enumerate(plan.reduction.gatheredRegisters)) {
      SmallVector<Partial> parts;
      for (unsigned part : group) {
        Partial &values = parts.emplace_back();
        for (const Registers &source : gathered)
          values.push_back(source[part]);
      }
      auto sum = combineAll(std::move(parts));
      if (failed(sum))
        return failure();
      partials[reg] = *sum;
    }
    return success();
  }

  KernelEmitter &emitter;
  tile::ReduceOp op;
  GatherPlan plan;
  Combiner combine;
  bool commutes;
  SmallVector<Partial> partials; ///< by register of the plan's result
};

} // namespace

LogicalResult emitReduce(KernelEmitter &emitter, tile::ReduceOp op) {
  return Reducer(emitter, op).run();
}

} // namespace sectile
