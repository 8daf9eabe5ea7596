// Uses are produced and consumed in order: a channel is a queue. Its state is the number of the
// oldest use, how many after it are acquired, committed and being read, and of those that are
// committed how many groups of copies were closed since. That is finite: a ring bounds the uses,
// their numbers are relative to what loops count, and paths that join keep the smaller numbers of
// groups.
#include "passes/channels/ChannelUses.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Kernel.h"
#include "passes/analysis/SharedMemory.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace sectile {

class ChannelUses::Walk {
public:
  explicit Walk(ChannelUses &uses) : uses(uses) {}

  LogicalResult run(func::FuncOp kernel) {
    llvm::MapVector<Value, SmallVector<Value>> bases;
    kernel.walk([&](Operation *op) {
      Value number;
      SmallVector<Value> channels;
      llvm::TypeSwitch<Operation *>(op)
          .Case([&](cta::AcquireOp acquire) {
            number = acquire.getSlot();
            channels = {acquire.getChannel()};
          })
          .Case<cta::CommitOp, cta::WaitOp, cta::ReleaseOp>([&](auto use) {
            number = use.getSlot();
            channels = use.getChannels();
          });
      if (std::optional<LinearCount> count = number ? linearCount(number) : std::nullopt)
        for (Value channel : channels)
          if (count->base)
            bases[channel].push_back(count->base);
    });
    for (auto &[channel, counts] : bases) {
      auto &all = countsOfChannel[channel];
      all = countsOf(counts);
      // Also after the last loop, where nobody counts on.
      for (const void *count : llvm::to_vector(all))
        if (auto argument = dyn_cast<BlockArgument>(Value::getFromOpaquePointer(count)))
          if (auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()))
            all.insert(loop.getTiedLoopResult(argument).getAsOpaquePointer());
    }
    State state;
    Block &body = kernel.getBody().front();
    if (failed(visit(body, state)))
      return failure();
    for (auto &[channel, ring] : state.rings)
      if (!isBetweenPartitions(channel) && ring.first && !ring.committed.empty())
        uses.left[channel] = {Value::getFromOpaquePointer(ring.first->base),
                              ring.first->offset + ring.read, unsigned(ring.committed.size())};
    return leave(body, state);
  }

private:
  /// The number of a use: from what a loop counts on, or from 0.
  struct Number {
    const void *base = nullptr;
    int64_t offset = 0;
    bool operator==(const Number &) const = default;
  };
  /// The uses of one channel that are in flight, the oldest first.
  struct Ring {
    std::optional<Number> first = Number(); ///< nothing where it cannot be told
    unsigned read = 0;
    SmallVector<unsigned, 4> committed; ///< groups closed since each commit
    unsigned acquired = 0;

    unsigned slots() const { return read + committed.size() + acquired; }
    bool operator==(const Ring &) const = default;
  };
  /// A use that was waited for: how many of its channel, also not released yet, came before it; -1
  /// once it is released.
  using Use = std::pair<Value, int>;
  /// A use that a dot in flight reads, or no use but the dot itself, and how many dots were started
  /// since.
  struct ReadInFlight {
    Use use;
    unsigned later = 0;
    bool operator==(const ReadInFlight &) const = default;
  };
  using Flight = SmallVector<ReadInFlight>;
  /// Dots beyond which nobody counts.
  static constexpr unsigned mostDots = 16;
  /// What is in scope.
  struct State {
    llvm::MapVector<Value, Ring> rings;
    llvm::MapVector<Value, Use> buffers;     ///< that a wait gave
    llvm::MapVector<Value, Flight> inFlight; ///< what the dot reads

    bool operator==(const State &other) const {
      auto same = [](const auto &a, const auto &b) {
        return llvm::equal(a, b, [](const auto &x, const auto &y) {
          return x.first == y.first && x.second == y.second;
        });
      };
      return same(rings, other.rings) && same(buffers, other.buffers) &&
             same(inFlight, other.inFlight);
    }
  };

  static LogicalResult fail(Operation *op, Value channel, const Twine &what) {
    InFlightDiagnostic error = channelError(op);
    error << what;
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
    if (auto begin = dyn_cast<cta::DotBeginOp>(op)) {
      state.inFlight[begin] = {};
      return success();
    }
    if (auto wait = dyn_cast<cta::DotWaitOp>(op)) {
      land(state, wait.getPending());
      FailureOr<Flight> left = take(op, wait.getDot(), state);
      if (failed(left))
        return failure();
      return left->empty() ? success()
                           : channelError(op) << "leaves the dot that it waits for in flight";
    }
    if (auto wait = dyn_cast<cta::DotsWaitOp>(op)) {
      land(state, wait.getPending());
      return success();
    }
    if (auto partition = dyn_cast<cta::PartitionOp>(op))
      return visit(partition, state);
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return visitFor(loop, state);
    if (auto loop = dyn_cast<scf::WhileOp>(op))
      return visitWhile(loop, state);
    return visitBranches(op, state);
  }

  // Whether an operation is on the use that comes `after` the oldest one, where that is `before`
  // the number it has.
  static LogicalResult check(Operation *op, Value channel, const Ring &ring, Value number,
                             unsigned after, unsigned before = 0) {
    std::optional<LinearCount> count = linearCount(number);
    if (!count || !ring.first)
      return fail(op, channel, "has a use's number that no loop counts from 0 on");
    const Number found{count->base.getAsOpaquePointer(), int64_t(count->offset) - before},
        next{ring.first->base, ring.first->offset + after};
    if (found == next)
      return success();
    return found.base != next.base
               ? fail(op, channel, "has the number of another use than its next")
               : fail(op, channel,
                      "has the number of a use that is " + Twine(found.offset - next.offset) +
                          " after its next");
  }

  LogicalResult visit(cta::AcquireOp acquire, State &state) {
    Value channel = acquire.getChannel();
    Ring &ring = state.rings[channel];
    // Another partition may release slots meanwhile.
    const unsigned taken = isBetweenPartitions(channel) ? ring.acquired : ring.slots();
    if (unsigned depth = acquire.getChannel().getType().getDepth(); taken >= depth)
      return fail(acquire, channel, "acquires a slot while all " + Twine(depth) + " are in use");
    const unsigned after = ring.slots();
    ++ring.acquired;
    return check(acquire, channel, ring, acquire.getSlot(), after);
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
      if (failed(check(commit, channel, ring, commit.getSlot(), ring.read + ring.committed.size())))
        return failure();
      --ring.acquired;
      if (isBetweenPartitions(channel))
        ++ring.first->offset;
      else
        ring.committed.push_back(0);
    }
    return success();
  }

  LogicalResult visit(cta::WaitOp wait, State &state) {
    for (auto [channel, buffer] : llvm::zip_equal(wait.getChannels(), wait.getBuffers())) {
      Ring &ring = state.rings[channel];
      const bool byOthers = isBetweenPartitions(channel);
      if (byOthers && ring.read >= cast<cta::ChannelType>(channel.getType()).getDepth())
        return fail(wait, channel, "waits for a use while all slots are being read");
      if (!byOthers && ring.committed.empty())
        return fail(wait, channel, "waits for a use that was not committed");
      if (failed(check(wait, channel, ring, wait.getSlot(), ring.read)))
        return failure();
      unsigned closed = 0;
      if (!byOthers) {
        closed = ring.committed.front();
        ring.committed.erase(ring.committed.begin());
      }
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
      if (failed(check(release, channel, ring, release.getSlot(), 0, release.getPrevious())))
        return failure();
      --ring.read;
      ++ring.first->offset;
      for (auto &[buffer, use] : state.buffers)
        if (use.first == channel && use.second >= 0)
          --use.second;
      for (auto &[dot, read] : state.inFlight)
        for (ReadInFlight &each : read)
          if (each.use.first == channel && --each.use.second < 0)
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
    Flight read;
    for (auto &[dot, others] : state.inFlight)
      for (ReadInFlight &each : others)
        each.later = std::min(each.later + 1, mostDots);
    if (isa<cta::InFlightType>(start.getAcc().getType())) {
      FailureOr<Flight> before = take(start, start.getAcc(), state);
      if (failed(before))
        return failure();
      read = std::move(*before); // in flight as long as it is
      llvm::erase_if(read, [](const ReadInFlight &each) { return !each.use.first; });
    }
    read.emplace_back();
    for (const BufferAccess &access : bufferAccesses(start))
      if (auto use = state.buffers.find(access.origin.buffer); use != state.buffers.end())
        read.push_back({use->second});
    state.inFlight[start] = std::move(read);
    return success();
  }

  // Dots with so many started since have read their operands.
  static void land(State &state, unsigned pending) {
    for (auto &[dot, read] : state.inFlight)
      llvm::erase_if(read, [&](const ReadInFlight &each) { return each.later >= pending; });
  }

  // Each partition counts its own uses, from 0. Mbarriers keep one from overtaking the other, which
  // check-channels checks.
  LogicalResult visit(cta::PartitionOp partition, State &state) {
    State own = state;
    Block &body = partition.getBody().front();
    if (failed(visit(body, own)))
      return failure();
    for (auto &[channel, ring] : own.rings)
      if (ring.acquired)
        return fail(partition, channel, "ends with a use that was acquired and not committed");
    for (auto &[channel, ring] : own.rings) {
      const bool isFilledHere = llvm::any_of(channel.getUsers(), [&](Operation *user) {
        return isa<cta::CommitOp>(user) && partition->isAncestor(user);
      });
      const unsigned depth = cast<cta::ChannelType>(channel.getType()).getDepth();
      if (isBetweenPartitions(channel) && isFilledHere && ring.first)
        uses.left[channel] = {Value::getFromOpaquePointer(ring.first->base),
                              ring.first->offset + depth, depth};
    }
    for (auto &[dot, read] : own.inFlight)
      if (dot.getParentBlock() == &body)
        return channelError(dot.getDefiningOp()) << "leaves a dot in flight that nobody waits for";
    return success();
  }
  static bool isBetweenPartitions(Value channel) {
    auto op = channel.getDefiningOp<cta::ChannelOp>();
    return op && op.getBetweenWarps() && op.getByHand();
  }

  // What a dot in flight reads, which is in flight no longer, or under another name.
  static FailureOr<Flight> take(Operation *op, Value dot, State &state) {
    auto entry = state.inFlight.find(dot);
    if (entry == state.inFlight.end())
      return channelError(op) << "has a dot that is not in flight on every path";
    Flight read = std::move(entry->second);
    state.inFlight.erase(entry);
    return read;
  }

  // Ends a block's scope.
  static LogicalResult leave(Block &block, State &state) {
    auto isLocal = [&](auto &entry) { return entry.first.getParentBlock() == &block; };
    for (auto &[dot, read] : state.inFlight)
      if (dot.getParentBlock() == &block)
        return channelError(block.getTerminator())
               << "leaves a dot in flight that nobody waits for";
    state.rings.remove_if(isLocal);
    state.buffers.remove_if(isLocal);
    return success();
  }

  // What goes on under another name: dots in flight, and what uses are counted from. `from` are
  // values of the block that ends, if any does.
  LogicalResult rename(Operation *op, State &state, ValueRange from, ValueRange to,
                       Block *ends = nullptr) {
    SmallVector<std::pair<Value, Flight>> dots;
    for (auto [source, target] : llvm::zip_equal(from, to)) {
      if (!isa<cta::InFlightType>(source.getType()))
        continue;
      FailureOr<Flight> read = take(op, source, state);
      if (failed(read))
        return failure();
      dots.push_back({target, std::move(*read)});
    }
    if (ends && failed(leave(*ends, state)))
      return failure();
    for (auto &[target, read] : dots)
      state.inFlight[target] = std::move(read);
    for (auto &[channel, ring] : state.rings) {
      if (!ring.first)
        continue;
      auto counts = countsOfChannel.find(channel);
      bool found = false;
      for (auto [source, target] : llvm::zip_equal(from, to)) {
        if (counts == countsOfChannel.end() ||
            !counts->second.contains(target.getAsOpaquePointer()))
          continue;
        std::optional<LinearCount> count = linearCount(source);
        if (!count || count->base.getAsOpaquePointer() != ring.first->base)
          continue;
        ring.first =
            Number{target.getAsOpaquePointer(), ring.first->offset - int64_t(count->offset)};
        found = true;
        break;
      }
      const void *base = ring.first->base;
      if (!found && ends && base && Value::getFromOpaquePointer(base).getParentBlock() == ends)
        ring.first.reset();
    }
    return success();
  }

  // Adds what another path leaves.
  static LogicalResult join(Operation *op, State &state, const State &other) {
    for (auto &[channel, ring] : state.rings) {
      const Ring &others = other.rings.find(channel)->second;
      if (ring.acquired != others.acquired || ring.committed.size() != others.committed.size() ||
          ring.read != others.read)
        return fail(op, channel,
                    "leaves other numbers of uses in flight by one path than by another");
      if (ring.first != others.first)
        ring.first.reset();
      for (auto [closed, otherClosed] : llvm::zip_equal(ring.committed, others.committed))
        closed = std::min(closed, otherClosed);
    }
    for (auto &[buffer, use] : state.buffers)
      if (auto others = other.buffers.find(buffer); others != other.buffers.end())
        use.second = std::min(use.second, others->second.second);
    if (state.inFlight.size() != other.inFlight.size())
      return channelError(op) << "leaves a dot in flight by one path and not by another";
    for (const auto &[dot, read] : other.inFlight) {
      auto own = state.inFlight.find(dot);
      if (own == state.inFlight.end())
        return channelError(op) << "leaves a dot in flight by one path and not by another";
      for (const ReadInFlight &each : read) {
        auto same = llvm::find_if(own->second,
                                  [&](const ReadInFlight &mine) { return mine.use == each.use; });
        if (same == own->second.end())
          own->second.push_back(each);
        else
          same->later = std::min(same->later, each.later);
      }
    }
    return success();
  }

  // Puts a use before all others, that was read and is released in a loop's first iteration: as in
  // all iterations that follow.
  static void lag(State &state, Value channel) {
    Ring &ring = state.rings[channel];
    ++ring.read;
    if (ring.first)
      --ring.first->offset;
    for (auto &[buffer, use] : state.buffers)
      if (use.first == channel && use.second >= 0)
        ++use.second;
    for (auto &[dot, read] : state.inFlight)
      for (ReadInFlight &each : read)
        if (each.use.first == channel)
          ++each.use.second;
  }

  LogicalResult visitFor(scf::ForOp loop, State &state) {
    Block &body = *loop.getBody();
    if (failed(rename(loop, state, loop.getInitArgs(), loop.getRegionIterArgs())))
      return failure();
    for (auto release : body.getOps<cta::ReleaseOp>())
      if (release.getPrevious() && isa<BlockArgument>(linearCount(release.getSlot())->base))
        llvm::for_each(release.getChannels(), [&](Value channel) { lag(state, channel); });
    for (;;) {
      State before = state, end = state;
      if (failed(visit(body, end)) ||
          failed(rename(body.getTerminator(), end, loop.getYieldedValues(),
                        loop.getRegionIterArgs(), &body)) ||
          failed(join(loop, state, end)))
        return failure();
      if (before == state)
        return rename(loop, state, loop.getRegionIterArgs(), loop.getResults(), &body);
    }
  }

  LogicalResult visitWhile(scf::WhileOp loop, State &state) {
    Block &condition = *loop.getBeforeBody(), &body = *loop.getAfterBody();
    if (failed(rename(loop, state, loop.getInits(), condition.getArguments())))
      return failure();
    for (;;) {
      State before = state, exit = state;
      if (failed(visit(condition, exit)))
        return failure();
      State end = exit;
      Operation *decision = condition.getTerminator(), *yield = body.getTerminator();
      ValueRange passed = loop.getConditionOp().getArgs();
      if (failed(rename(decision, end, passed, body.getArguments(), &condition)) ||
          failed(visit(body, end)) ||
          failed(rename(yield, end, yield->getOperands(), condition.getArguments(), &body)) ||
          failed(join(loop, state, end)))
        return failure();
      if (before == state) {
        state = std::move(exit);
        return rename(decision, state, passed, loop.getResults(), &condition);
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
        ValueRange none, yielded = isa<scf::IfOp>(op) ? block.getTerminator()->getOperands() : none,
                         results = isa<scf::IfOp>(op) ? op->getResults() : none;
        if (failed(visit(block, branch)) ||
            failed(rename(block.getTerminator(), branch, yielded, results, &block)))
          return failure();
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
  /// What the uses of a channel are counted from.
  llvm::DenseMap<Value, llvm::SmallPtrSet<const void *, 8>> countsOfChannel;
};

FailureOr<ChannelUses> ChannelUses::of(func::FuncOp kernel) {
  ChannelUses uses;
  if (kernel.isDeclaration())
    return uses;
  kernel.walk([&](Operation *op) {
    for (const BufferAccess &access : bufferAccesses(op))
      if (isa_and_present<cta::ChannelOp>(access.origin.owner)) {
        if (access.kind == BufferAccess::AsyncWrite)
          uses.asynchronous.insert(access.origin.owner->getResult(0));
        if (access.kind == BufferAccess::EngineWrite)
          uses.byEngine.insert(access.origin.owner->getResult(0));
      }
  });
  if (failed(Walk(uses).run(kernel)))
    return failure();
  return uses;
}

bool ChannelUses::isAsynchronous(ValueRange channels) const {
  return llvm::any_of(channels, [&](Value channel) { return asynchronous.contains(channel); });
}
bool ChannelUses::isByEngine(ValueRange channels) const {
  return llvm::any_of(channels, [&](Value channel) { return byEngine.contains(channel); });
}

} // namespace sectile
