// tile.scan: within threads, then between lanes, then between warps, as the plan's levels go.
#include "codegen/common/Combiner.h"
#include "codegen/common/Conversions.h"
#include "passes/analysis/SharedMemory.h"

using namespace mlir;

namespace sectile {

namespace {

class Scanner {
public:
  Scanner(KernelEmitter &emitter, tile::ScanOp op, const ScanScratch &scratch)
      : emitter(emitter), b(emitter.b), op(op), scratch(scratch), plan(scratch.plan),
        combine(emitter, op.getCombiner()), carries(plan.layout.numRegisters()) {}

  LogicalResult run() {
    if (failed(withinRuns()))
      return failure();
    for (const ScanPlan::Level &level : plan.levels)
      if (failed(level.in == In::Register ? betweenRegisters(level.bits.front())
                 : level.in == In::Lane   ? betweenLanes(level.bits.front())
                                          : betweenWarps(level.bits)))
        return failure();
    if (failed(betweenRepeats()) || failed(applyCarries()))
      return failure();
    for (auto [i, result] : llvm::enumerate(op.getResults())) {
      Registers values;
      for (unsigned reg : plan.ofGiven)
        values.push_back(scanned[reg][i]);
      emitter.define(result, std::move(values));
    }
    return success();
  }

private:
  /// What all elements of a run have yet to be combined with: the total of what is before the block
  /// that the levels so far have put together. Whether there is anything depends on the thread:
  /// where `exists` is false, the value means nothing.
  struct Carry {
    Partial value;                 ///< empty for none in any thread
    llvm::Value *exists = nullptr; ///< nullptr for every thread
  };

  unsigned core() const { return plan.layout.coreRegisters(); }
  /// The first registers of all runs.
  template <class Visit> LogicalResult forRuns(Visit visit) {
    for (unsigned repeat = 0; repeat < plan.layout.numRepeats(); ++repeat)
      for (unsigned reg : plan.runs)
        if (failed(visit(repeat * core() + reg)))
          return failure();
    return success();
  }
  /// The first registers of the runs that totals are kept at.
  template <class Visit> LogicalResult forTotals(Visit visit) {
    return forRuns(
        [&](unsigned reg) { return (reg & (core() - 1) & merged) ? success() : visit(reg); });
  }
  Partial &totalOf(unsigned reg) { return totals[reg & ~merged]; }

  Partial select(llvm::Value *condition, const Partial &yes, const Partial &no) {
    Partial result;
    for (auto [a, c] : llvm::zip_equal(yes, no))
      result.push_back(b.CreateSelect(condition, a, c));
    return result;
  }

  /// The run gets what is right before its carry; where `isSecond` holds (nullptr: everywhere).
  LogicalResult receive(unsigned run, const Partial &before, llvm::Value *isSecond) {
    Carry &carry = carries[run];
    if (carry.value.empty()) {
      carry = {before, isSecond};
      return success();
    }
    auto both = combine(before, carry.value);
    if (failed(both))
      return failure();
    Partial received = carry.exists ? select(carry.exists, *both, before) : *both;
    carry.value = isSecond ? select(isSecond, received, carry.value) : received;
    if (!isSecond)
      carry.exists = nullptr;
    else if (carry.exists)
      carry.exists = b.CreateOr(carry.exists, isSecond);
    return success();
  }

  /// Numbers 0 … count-1 in the direction of the scan.
  SmallVector<unsigned> inOrder(unsigned count) {
    auto order = llvm::to_vector(llvm::seq(0u, count));
    if (op.getReverse())
      std::reverse(order.begin(), order.end());
    return order;
  }

  LogicalResult withinRuns() {
    for (unsigned reg : plan.toGiven) {
      Partial &part = scanned.emplace_back();
      for (Value source : op.getSources())
        part.push_back(emitter.registers(source)[reg]);
    }
    totals.resize(scanned.size());
    return forRuns([&](unsigned first) -> LogicalResult {
      const Partial *before = nullptr;
      for (unsigned i : inOrder(plan.run.size())) {
        Partial &own = scanned[first ^ plan.run[i]];
        if (before) {
          auto both = combine(*before, own);
          if (failed(both))
            return failure();
          own = *both;
        }
        before = &own;
      }
      totals[first] = *before;
      return success();
    });
  }

  LogicalResult betweenRegisters(unsigned bit) {
    unsigned mask = 1u << bit;
    if (failed(forRuns([&](unsigned run) {
          bool isSecond = ((run & mask) != 0) != op.getReverse();
          return isSecond ? receive(run, totalOf(run ^ mask), nullptr) : success();
        })))
      return failure();
    LogicalResult result = forTotals([&](unsigned reg) -> LogicalResult {
      if (reg & mask)
        return success();
      const Partial &low = totals[reg], &high = totals[reg | mask];
      auto both = op.getReverse() ? combine(high, low) : combine(low, high);
      if (failed(both))
        return failure();
      totals[reg] = *both;
      return success();
    });
    merged |= mask;
    return result;
  }

  LogicalResult betweenLanes(unsigned bit) {
    unsigned mask = 1u << bit;
    llvm::Value *lane = b.CreateAnd(emitter.laneIndex(), uint64_t(mask));
    llvm::Value *isSecond = op.getReverse() ? b.CreateIsNull(lane) : b.CreateIsNotNull(lane);
    SmallVector<Partial> others(totals.size());
    if (failed(forTotals([&](unsigned reg) -> LogicalResult {
          const Partial own = totals[reg];
          for (llvm::Value *value : own)
            others[reg].push_back(emitter.shuffleXor(value, mask));
          Partial first = select(isSecond, others[reg], own);
          Partial second = select(isSecond, own, others[reg]);
          auto both = combine(first, second);
          if (failed(both))
            return failure();
          totals[reg] = *both;
          return success();
        })))
      return failure();
    return forRuns([&](unsigned run) { return receive(run, others[run & ~merged], isSecond); });
  }

  /// Every total of every warp through scratch. Lanes that hold the same total use one slot.
  LogicalResult betweenWarps(ArrayRef<unsigned> bits) {
    auto offset = sharedOffset(op);
    if (!offset)
      return op.emitError("needs scratch in shared memory, which has not been placed");
    SmallVector<uint32_t> lanes, warps, warpsElsewhere;
    unsigned slot = 1;
    for (unsigned bit = 0; bit < plan.layout.bits(In::Lane); ++bit) {
      bool together = plan.lanesTogether >> bit & 1;
      lanes.push_back(together ? 0 : slot);
      slot <<= !together;
    }
    const unsigned perWarp = slot;
    for (unsigned bit = 0; bit < plan.layout.bits(In::Warp); ++bit, slot <<= 1) {
      warps.push_back(slot);
      warpsElsewhere.push_back(llvm::is_contained(bits, bit) ? 0 : slot);
    }
    auto scaled = [](ArrayRef<uint32_t> images, unsigned bytes) {
      return llvm::map_to_vector(images, [&](uint32_t image) { return image * bytes; });
    };
    auto address = [&](unsigned source, unsigned total, unsigned fixedSlot, bool ofAnyWarp) {
      unsigned bytes = bytesOf(source);
      ThreadPart part = emitter.threadPart(scaled(lanes, bytes),
                                           scaled(ofAnyWarp ? warpsElsewhere : warps, bytes));
      llvm::Value *base = emitter.sharedAddress(*offset + scratch.offsets[source] +
                                                (total * plan.slotsPerTotal + fixedSlot) * bytes);
      return part.value ? b.CreateInBoundsGEP(b.getInt8Ty(), base, part.value) : base;
    };

    llvm::Value *writes = nullptr;
    if (plan.lanesTogether)
      writes = b.CreateIsNull(b.CreateAnd(emitter.laneIndex(), uint64_t(plan.lanesTogether)));
    emitter.under(writes, [&] {
      for (auto [number, reg] : llvm::enumerate(plan.totals))
        for (unsigned source = 0; source < op.getNumOperands(); ++source)
          b.CreateAlignedStore(emitter.toMemory(totals[reg][source]),
                               address(source, number, 0, false), llvm::Align(bytesOf(source)));
    });
    emitter.barrier();

    // Which of the warps along the axis this is.
    SmallVector<uint32_t> digits(plan.layout.bits(In::Warp), 0);
    for (auto [i, bit] : llvm::enumerate(bits))
      digits[bit] = 1u << i;
    llvm::Value *digit = emitter.threadPart({}, digits).value;
    SmallVector<unsigned> order = inOrder(1u << bits.size());
    SmallVector<Partial> befores(totals.size());
    for (auto [number, reg] : llvm::enumerate(plan.totals)) {
      Partial all, before;
      for (unsigned warp : order) {
        unsigned fixedSlot = 0;
        for (auto [i, bit] : llvm::enumerate(bits))
          fixedSlot |= (warp >> i & 1) * (perWarp << bit);
        Partial part;
        for (unsigned source = 0; source < op.getNumOperands(); ++source) {
          llvm::Value *value = b.CreateAlignedLoad(emitter.memoryTypeOf(elementOf(source)),
                                                   address(source, number, fixedSlot, true),
                                                   llvm::Align(bytesOf(source)));
          part.push_back(emitter.fromMemory(value, emitter.typeOf(elementOf(source))));
        }
        if (all.empty()) {
          all = before = part;
          continue;
        }
        before = select(b.CreateICmpEQ(digit, b.getInt32(warp)), all, before);
        auto both = combine(all, part);
        if (failed(both))
          return failure();
        all = *both;
      }
      totals[reg] = all;
      befores[reg] = before;
    }
    llvm::Value *isSecond = b.CreateICmpNE(digit, b.getInt32(order.front()));
    return forRuns([&](unsigned run) { return receive(run, befores[run & ~merged], isSecond); });
  }

  LogicalResult betweenRepeats() {
    const Layout &layout = plan.layout;
    unsigned count = layout.repeats(op.getAxis()), inner = 1;
    for (unsigned dim = op.getAxis() + 1; dim < layout.rank(); ++dim)
      inner *= layout.repeats(dim);
    SmallVector<Partial> befores(totals.size());
    if (failed(forTotals([&](unsigned reg) -> LogicalResult {
          if (reg / core() / inner % count)
            return success();
          Partial all;
          for (unsigned repeat : inOrder(count)) {
            unsigned at = reg + repeat * inner * core();
            befores[at] = all;
            if (all.empty()) {
              all = totals[at];
              continue;
            }
            auto both = combine(all, totals[at]);
            if (failed(both))
              return failure();
            all = *both;
          }
          return success();
        })))
      return failure();
    return forRuns([&](unsigned run) {
      const Partial &before = befores[run & ~merged];
      return before.empty() ? success() : receive(run, before, nullptr);
    });
  }

  LogicalResult applyCarries() {
    return forRuns([&](unsigned first) -> LogicalResult {
      const Carry &carry = carries[first];
      if (carry.value.empty())
        return success();
      for (unsigned offset : plan.run) {
        Partial &own = scanned[first ^ offset];
        auto both = combine(carry.value, own);
        if (failed(both))
          return failure();
        own = carry.exists ? select(carry.exists, *both, own) : *both;
      }
      return success();
    });
  }

  Type elementOf(unsigned source) { return tile::elementType(op.getSources()[source].getType()); }
  unsigned bytesOf(unsigned source) { return cta::elementBytes(op.getSources()[source].getType()); }

  KernelEmitter &emitter;
  llvm::IRBuilder<> &b;
  tile::ScanOp op;
  const ScanScratch &scratch;
  const ScanPlan &plan;
  Combiner combine;
  SmallVector<Partial> scanned; ///< by register: the scan of its block so far, but for the carry
  SmallVector<Partial> totals;  ///< of the blocks so far, at their first registers
  SmallVector<Carry> carries;   ///< at the first registers of runs
  unsigned merged = 0;          ///< register bits of the levels so far
};

} // namespace

LogicalResult emitScan(KernelEmitter &emitter, tile::ScanOp op) {
  std::optional<ScanScratch> scratch = planOf(op);
  if (!scratch)
    return op.emitError("has a layout that it cannot be done in");
  return Scanner(emitter, op, *scratch).run();
}

} // namespace sectile
