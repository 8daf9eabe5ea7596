// Dots complete in the order in which they are started. So a wait for one of them waits for all
// that were started before it, and may leave those that were started after it. Their number depends
// on the path: a walk follows every loop until the numbers repeat, and paths that join keep the
// smaller ones.
//
// Numbers only shrink from one round of a loop to the next. What is complete after a wait follows
// from its final number, so a second walk looks at that. A wait that finds fewer dots in flight
// leaves no more than these: the assembler follows sums best through a wait for all.
#include "passes/analysis/DotsInFlight.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace sectile {
namespace {

/// The most dots that a wait leaves in flight, and up to which they are counted.
constexpr unsigned mostDots = 7;

class Walk {
public:
  /// What a walk looks at beside the numbers of dots: nothing, as waits have no numbers yet; dots
  /// that are started again; or registers that are written.
  enum Checks { None, Starts, Registers };
  explicit Walk(Checks checks) : checks(checks) {}

  LogicalResult run(func::FuncOp kernel) {
    State state;
    return visit(kernel.getBody().front(), state);
  }

  /// For each wait, how many dots were started after its own on the path with the fewest; where
  /// this checks, how many are in flight before it on the path with the most.
  llvm::MapVector<Operation *, unsigned> counts;

private:
  /// Dots that were started after the last one that adds to some sums, or after one that reads
  /// registers and was not waited for.
  struct State {
    llvm::MapVector<Value, unsigned> sums;
    llvm::MapVector<Operation *, unsigned> readers;
    unsigned inFlight = 0; ///< at most

    void start() {
      inFlight = std::min(inFlight + 1, mostDots);
      for (auto &[value, later] : sums)
        later = std::min(later + 1, mostDots);
      for (auto &[dot, later] : readers)
        later = std::min(later + 1, mostDots);
    }
    void land(unsigned left) {
      inFlight = std::min(inFlight, left);
      readers.remove_if([&](const auto &reader) { return reader.second >= left; });
    }
    void rename(ValueRange from, ValueRange to) {
      SmallVector<std::pair<Value, unsigned>> renamed;
      for (auto [source, target] : llvm::zip_equal(from, to))
        if (auto found = sums.find(source); found != sums.end()) {
          renamed.push_back({target, found->second});
          sums.erase(found);
        }
      for (auto [target, later] : renamed)
        sums[target] = later;
    }
    /// Says whether that changed anything.
    bool join(const State &other) {
      bool changed = inFlight < other.inFlight;
      inFlight = std::max(inFlight, other.inFlight);
      changed |= joinOf(sums, other.sums);
      changed |= joinOf(readers, other.readers);
      return changed;
    }

  private:
    template <class Map> static bool joinOf(Map &own, const Map &others) {
      bool changed = false;
      for (const auto &[key, later] : others) {
        auto [at, isNew] = own.try_emplace(key, later);
        changed |= isNew || later < at->second;
        at->second = std::min(at->second, later);
      }
      return changed;
    }
  };

  LogicalResult visit(Block &block, State &state) {
    for (Operation &op : block)
      if (failed(visit(&op, state)))
        return failure();
    return success();
  }

  LogicalResult visit(Operation *op, State &state) {
    if (checks == Registers && failed(checkRegisters(op, state)))
      return failure();
    if (auto start = dyn_cast<cta::DotStartOp>(op))
      return visit(start, state);
    if (auto begin = dyn_cast<cta::DotBeginOp>(op)) {
      state.sums[begin] = mostDots;
    } else if (auto wait = dyn_cast<cta::DotWaitOp>(op)) {
      auto found = state.sums.find(wait.getDot());
      const unsigned later = found == state.sums.end() ? 0 : found->second,
                     count = checks ? state.inFlight : later;
      auto [at, isNew] = counts.try_emplace(wait, count);
      at->second = checks ? std::max(at->second, count) : std::min(at->second, count);
      state.sums.erase(wait.getDot());
      state.land(wait.getPending());
    } else if (auto wait = dyn_cast<cta::DotsWaitOp>(op)) {
      state.land(wait.getPending());
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      return visitFor(loop, state);
    } else if (isa<cta::PartitionOp>(op)) { // other warps, with dots of their own
      State own;
      return visit(op->getRegion(0).front(), own);
    } else {
      return visitRegions(op, state);
    }
    return success();
  }

  LogicalResult visit(cta::DotStartOp start, State &state) {
    state.start();
    state.sums.erase(start.getAcc());
    state.sums[start] = 0;
    if (!isa<RankedTensorType>(start.getA().getType()))
      return success();
    if (checks == Starts && state.readers.contains(start))
      return start.emitError("this dot is started again while the one before may still read its "
                             "left operand from registers: wait for that one first");
    state.readers[start] = 0;
    return success();
  }

  /// What a loop carries on is written at its end.
  static LogicalResult checkRegisters(Operation *op, const State &state) {
    auto isWritten = [&](Value operand) {
      auto carried = dyn_cast<BlockArgument>(operand);
      return carried ? op == carried.getOwner()->getTerminator() : operand.getDefiningOp() == op;
    };
    for (const auto &[reader, later] : state.readers)
      if (auto start = cast<cta::DotStartOp>(reader);
          !start->hasAttr(cta::ownRegistersAttr) && isWritten(start.getA()))
        return op->emitOpError("writes registers that a dot in flight reads");
    return success();
  }

  LogicalResult visitFor(scf::ForOp loop, State &state) {
    Block &body = *loop.getBody();
    state.rename(loop.getInitArgs(), loop.getRegionIterArgs());
    for (;;) {
      State end = state;
      if (failed(visit(body, end)))
        return failure();
      end.rename(loop.getYieldedValues(), loop.getRegionIterArgs());
      if (!state.join(end))
        break;
    }
    state.rename(loop.getRegionIterArgs(), loop.getResults());
    return success();
  }

  /// Any of them may run, any number of times. Nothing in flight goes into them or out.
  LogicalResult visitRegions(Operation *op, State &state) {
    for (bool changed = op->getNumRegions() > 0; changed;) {
      changed = false;
      for (Region &region : op->getRegions()) {
        State end = state;
        if (!region.empty() && failed(visit(region.front(), end)))
          return failure();
        changed |= state.join(end);
      }
    }
    return success();
  }

  const Checks checks;
};

} // namespace

LogicalResult nameWaitsForDots(func::FuncOp kernel) {
  Walk later(Walk::None), inFlight(Walk::Starts);
  if (failed(later.run(kernel)))
    return failure();
  for (auto [wait, count] : later.counts)
    cast<cta::DotWaitOp>(wait).setPending(count);
  if (failed(inFlight.run(kernel)))
    return failure();
  for (auto [wait, count] : inFlight.counts)
    if (auto named = cast<cta::DotWaitOp>(wait); count < named.getPending())
      named.setPending(count);
  return success();
}

LogicalResult checkOperandsInFlight(func::FuncOp kernel) {
  return Walk(Walk::Registers).run(kernel);
}

} // namespace sectile
