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
  /// A use that was waited for: how many of its channel, also not released yet, came before it; -1
  /// once it is released.
  using Use = std::pair<Value, int>;
  /// Of what is in scope.
  struct State {
    llvm::MapVector<Value, Ring> rings;
    llvm::MapVector<Value, Use> buffers;               ///< that a wait gave
    llvm::MapVector<Value, SmallVector<Use>> inFlight; ///< what the dot reads

    bool operator==(const State &other) const {
      auto same = [](const auto &a, const auto &b) {
        return llvm::equal(a, b, [](const auto &x, const auto &y) {
          return x.first == y.first && x.second == y.second;
        });
      };
      return same(rings, other.rings) && same(buffers, other.buffers) &&
             same(inFlight, other.inFlight);
    }
    void leave(Block &block) {
      auto isLocal = [&](auto &entry) { return entry.first.getParentBlock() == &block; };
      rings.remove_if(isLocal);
      buffers.remove_if(isLocal);
      inFlight.remove_if(isLocal);
    }
  };

  static LogicalResult fail(Operation *op, Value channel, const Twine &what) {
    InFlightDiagnostic error = op->emitOpError(what);
    error.attachNote(channel.getLoc()) << "of this channel";
    return error;
  }

  LogicalResult visit(Block &block, State &state) {
    for (Operation &op : block)
      if (failed(visit(&op, state)))
        return failure();
    return success();
  }

  LogicalResult visit(Operation *op, State &state) {
    if (auto channel = dyn_cast<cta::ChannelOp>(op)) {
      state.rings[channel] = {};
      return success();
    }
    for (const BufferAccess &access : bufferAccesses(op))
      if (failed(read(op, access.origin.buffer, state)))
        return failure();
    if (auto acquire = dyn_cast<cta::AcquireOp>(op))
      return visit(acquire, state);
    if (auto commit = dyn_cast<cta::CommitOp>(op))
      return visit(commit, state);
    if (auto wait = dyn_cast<cta::WaitOp>(op))
      return visit(wait, state);
    if (auto release = dyn_cast<cta::ReleaseOp>(op))
      return visit(release, state);
    if (auto start = dyn_cast<cta::DotStartOp>(op))
      return visit(start, state);
    if (auto wait = dyn_cast<cta::DotWaitOp>(op)) {
      take(state, wait.getDot());
      return success();
    }
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return visitFor(loop, state);
    if (auto loop = dyn_cast<scf::WhileOp>(op))
      return visitWhile(loop, state);
    return visitBranches(op, state);
  }

  LogicalResult visit(cta::AcquireOp acquire, State &state) {
    Ring &ring = state.rings[acquire.getChannel()];
    if (unsigned depth = acquire.getChannel().getType().getDepth(); ring.slots() >= depth)
      return fail(acquire, acquire.getChannel(),
                  "acquires a slot while all " + Twine(depth) + " are in use");
    ++ring.acquired;
    return success();
  }

  LogicalResult visit(cta::CommitOp commit, State &state) {
    if (uses.isAsynchronous(commit.getChannels()))
      for (auto &[channel, ring] : state.rings)
        for (unsigned &closed : ring.committed)
          ++closed;
    for (Value channel : commit.getChannels()) {
      Ring &ring = state.rings[channel];
      if (!ring.acquired)
        return fail(commit, channel, "commits a use that was not acquired");
      --ring.acquired;
      ring.committed.push_back(0);
    }
    return success();
  }

  LogicalResult visit(cta::WaitOp wait, State &state) {
    for (auto [channel, buffer] : llvm::zip_equal(wait.getChannels(), wait.getBuffers())) {
      Ring &ring = state.rings[channel];
      if (ring.committed.empty())
        return fail(wait, channel, "waits for a use that was not committed");
      unsigned closed = ring.committed.front();
      ring.committed.erase(ring.committed.begin());
      state.buffers[buffer] = {channel, int(ring.read++)};
      auto [at, isNew] = uses.groups.try_emplace(wait, closed);
      at->second = std::min(at->second, closed);
    }
    return success();
  }

  LogicalResult visit(cta::ReleaseOp release, State &state) {
    for (Value channel : release.getChannels()) {
      Ring &ring = state.rings[channel];
      if (!ring.read)
        return fail(release, channel, "releases a use that was not waited for");
      --ring.read;
      for (auto &[buffer, use] : state.buffers)
        if (use.first == channel && use.second >= 0)
          --use.second;
      for (auto &[dot, uses] : state.inFlight)
        for (Use &use : uses)
          if (use.first == channel && --use.second < 0)
            return fail(release, channel, "releases a use that a dot in flight reads");
    }
    return success();
  }

  static LogicalResult read(Operation *op, Value buffer, State &state) {
    auto use = state.buffers.find(buffer);
    if (use == state.buffers.end() || use->second.second >= 0)
      return success();
    return fail(op, use->second.first, "reads a use that was released");
  }

  static LogicalResult visit(cta::DotStartOp start, State &state) {
    SmallVector<Use> uses = take(state, start.getAcc()); // in flight as long as it is
    for (const BufferAccess &access : bufferAccesses(start))
      if (auto use = state.buffers.find(access.origin.buffer); use != state.buffers.end())
        uses.push_back(use->second);
    state.inFlight[start] = std::move(uses);
    return success();
  }

  static SmallVector<Use> take(State &state, Value inFlight) {
    auto entry = state.inFlight.find(inFlight);
    if (entry == state.inFlight.end())
      return {};
    SmallVector<Use> uses = std::move(entry->second);
    state.inFlight.erase(entry);
    return uses;
  }

  // What is in flight goes on under the names that a loop or a branch has for it.
  static void rename(State &state, ValueRange from, ValueRange to) {
    SmallVector<std::pair<Value, SmallVector<Use>>> renamed;
    for (auto [source, target] : llvm::zip_equal(from, to))
      if (isa<cta::InFlightType>(source.getType()))
        renamed.push_back({target, take(state, source)});
    for (auto &[target, uses] : renamed)
      state.inFlight[target] = std::move(uses);
  }

  // Adds what another path leaves.
  static LogicalResult join(Operation *op, State &state, const State &other) {
    for (auto &[channel, ring] : state.rings) {
      const Ring &others = other.rings.find(channel)->second;
      if (ring.acquired != others.acquired || ring.committed.size() != others.committed.size() ||
          ring.read != others.read)
        return fail(op, channel,
                    "leaves other numbers of uses under way by one path than by another");
      for (auto [closed, otherClosed] : llvm::zip_equal(ring.committed, others.committed))
        closed = std::min(closed, otherClosed);
    }
    for (auto &[buffer, use] : state.buffers)
      if (auto others = other.buffers.find(buffer); others != other.buffers.end())
        use.second = std::min(use.second, others->second.second);
    for (const auto &[dot, uses] : other.inFlight)
      for (const Use &use : uses)
        if (SmallVector<Use> &all = state.inFlight[dot]; !llvm::is_contained(all, use))
          all.push_back(use);
    return success();
  }

  LogicalResult visitFor(scf::ForOp loop, State &state) {
    rename(state, loop.getInitArgs(), loop.getRegionIterArgs());
    for (;;) {
      State before = state, end = state;
      if (failed(visit(*loop.getBody(), end)))
        return failure();
      rename(end, loop.getYieldedValues(), loop.getRegionIterArgs());
      if (failed(join(loop, state, end)))
        return failure();
      if (before == state) {
        rename(state, loop.getRegionIterArgs(), loop.getResults());
        state.leave(*loop.getBody());
        return success();
      }
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
      if (before == state) {
        state = std::move(exit);
        state.leave(*loop.getBeforeBody());
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
      if (!region.empty()) {
        Block &block = region.front();
        if (failed(visit(block, branch)))
          return failure();
        if (isa<scf::IfOp>(op))
          rename(branch, block.getTerminator()->getOperands(), op->getResults());
        branch.leave(block);
      }
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
  kernel.walk([&](Operation *op) {
    for (const BufferAccess &access : bufferAccesses(op))
      if (access.kind == BufferAccess::AsyncWrite &&
          isa_and_present<cta::ChannelOp>(access.origin.owner))
        uses.asynchronous.insert(access.origin.owner->getResult(0));
  });
  if (failed(Walk(uses).run(kernel)))
    return failure();
  return uses;
}

bool ChannelUses::isAsynchronous(ValueRange channels) const {
  return llvm::any_of(channels, [&](Value channel) { return asynchronous.contains(channel); });
}

} // namespace sectile
