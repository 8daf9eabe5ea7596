// Uses are produced and consumed in order: a channel is a queue. Its state is how many uses are
// acquired, committed and being read, and of those that are committed how many groups of copies
// were closed since. That is finite, as a ring bounds the uses and paths that join keep the smaller
// numbers of groups.
#include "passes/analysis/ChannelUses.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/analysis/SharedMemory.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace sectile {

class ChannelUses::Walk {
public:
  explicit Walk(ChannelUses &uses) : uses(uses) {}

  LogicalResult run(func::FuncOp kernel) {
    State state;
    return visit(kernel.getBody().front(), state);
  }

private:
  /// The uses of one channel that are under way.
  struct Ring {
    unsigned acquired = 0;
    /// Groups closed since each commit, the oldest use first.
    SmallVector<unsigned, 4> committed;
    unsigned read = 0;

    unsigned slots() const { return acquired + committed.size() + read; }
    bool operator==(const Ring &) const = default;
  };
  /// Of the channels in scope.
  using State = llvm::MapVector<Value, Ring>;

  static bool areEqual(const State &a, const State &b) {
    return llvm::equal(a, b, [](const auto &x, const auto &y) {
      return x.first == y.first && x.second == y.second;
    });
  }

  static LogicalResult fail(Operation *op, Value channel, const Twine &what) {
    InFlightDiagnostic error = op->emitOpError(what);
    error.attachNote(channel.getLoc()) << "of this channel";
    return error;
  }

  LogicalResult visit(Block &block, State &state) {
    for (Operation &op : block)
      if (failed(visit(&op, state)))
        return failure();
    state.remove_if([&](auto &entry) { return entry.first.getParentBlock() == &block; });
    return success();
  }

  LogicalResult visit(Operation *op, State &state) {
    if (auto channel = dyn_cast<cta::ChannelOp>(op)) {
      state[channel] = {};
      return success();
    }
    if (auto acquire = dyn_cast<cta::AcquireOp>(op))
      return visit(acquire, state);
    if (auto commit = dyn_cast<cta::CommitOp>(op))
      return visit(commit, state);
    if (auto wait = dyn_cast<cta::WaitOp>(op))
      return visit(wait, state);
    if (auto release = dyn_cast<cta::ReleaseOp>(op))
      return visit(release, state);
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return visitFor(loop, state);
    if (auto loop = dyn_cast<scf::WhileOp>(op))
      return visitWhile(loop, state);
    return visitBranches(op, state);
  }

  LogicalResult visit(cta::AcquireOp acquire, State &state) {
    Ring &ring = state[acquire.getChannel()];
    if (unsigned depth = acquire.getChannel().getType().getDepth(); ring.slots() >= depth)
      return fail(acquire, acquire.getChannel(),
                  "acquires a slot while all " + Twine(depth) + " are in use");
    ++ring.acquired;
    return success();
  }

  LogicalResult visit(cta::CommitOp commit, State &state) {
    if (uses.isAsynchronous(commit.getChannels()))
      for (auto &[channel, ring] : state)
        for (unsigned &closed : ring.committed)
          ++closed;
    for (Value channel : commit.getChannels()) {
      Ring &ring = state[channel];
      if (!ring.acquired)
        return fail(commit, channel, "commits a use that was not acquired");
      --ring.acquired;
      ring.committed.push_back(0);
    }
    return success();
  }

  LogicalResult visit(cta::WaitOp wait, State &state) {
    for (Value channel : wait.getChannels()) {
      Ring &ring = state[channel];
      if (ring.committed.empty())
        return fail(wait, channel, "waits for a use that was not committed");
      unsigned closed = ring.committed.front();
      ring.committed.erase(ring.committed.begin());
      ++ring.read;
      auto [at, isNew] = uses.groups.try_emplace(wait, closed);
      at->second = std::min(at->second, closed);
    }
    return success();
  }

  LogicalResult visit(cta::ReleaseOp release, State &state) {
    for (Value channel : release.getChannels()) {
      Ring &ring = state[channel];
      if (!ring.read)
        return fail(release, channel, "releases a use that was not waited for");
      --ring.read;
    }
    return success();
  }

  // Adds what another path leaves.
  static LogicalResult join(Operation *op, State &state, const State &other) {
    for (auto &[channel, ring] : state) {
      const Ring &others = other.find(channel)->second;
      if (ring.acquired != others.acquired || ring.committed.size() != others.committed.size() ||
          ring.read != others.read)
        return fail(op, channel,
                    "leaves other numbers of uses under way by one path than by another");
      for (auto [closed, otherClosed] : llvm::zip_equal(ring.committed, others.committed))
        closed = std::min(closed, otherClosed);
    }
    return success();
  }

  LogicalResult visitFor(scf::ForOp loop, State &state) {
    for (;;) {
      State before = state, end = state;
      if (failed(visit(*loop.getBody(), end)) || failed(join(loop, state, end)))
        return failure();
      if (areEqual(before, state))
        return success();
    }
  }

  LogicalResult visitWhile(scf::WhileOp loop, State &state) {
    for (;;) {
      State before = state, exit = state;
      if (failed(visit(*loop.getBeforeBody(), exit)))
        return failure();
      State end = exit;
      if (failed(visit(*loop.getAfterBody(), end)) || failed(join(loop, state, end)))
        return failure();
      if (areEqual(before, state)) {
        state = std::move(exit);
        return success();
      }
    }
  }

  LogicalResult visitBranches(Operation *op, State &state) {
    if (op->getNumRegions() == 0)
      return success();
    std::optional<State> joined;
    for (Region &region : op->getRegions()) {
      State branch = state;
      if (!region.empty() && failed(visit(region.front(), branch)))
        return failure();
      if (!joined)
        joined = std::move(branch);
      else if (failed(join(op, *joined, branch)))
        return failure();
    }
    state = std::move(*joined);
    return success();
  }

  ChannelUses &uses;
};

FailureOr<ChannelUses> ChannelUses::of(func::FuncOp kernel) {
  ChannelUses uses;
  kernel.walk([&](cta::AsyncCopyOp copy) {
    if (Operation *owner = originOf(copy.getBuffer()).owner; isa_and_present<cta::ChannelOp>(owner))
      uses.asynchronous.insert(owner->getResult(0));
  });
  if (failed(Walk(uses).run(kernel)))
    return failure();
  return uses;
}

bool ChannelUses::isAsynchronous(ValueRange channels) const {
  return llvm::any_of(channels, [&](Value channel) { return asynchronous.contains(channel); });
}

} // namespace sectile
