// Inserts the barriers that hazards over shared memory need, and no more than that.
//
// A forward dataflow carries what the block's threads did to shared memory since they last met. An
// access that conflicts with it needs a barrier in between. The barriers found in this way are then
// thinned out: one that others make superfluous goes, and one that a single barrier before its loop
// can stand for moves there.
//
// An asynchronous copy is under way from its issue until async_wait; that makes it an ordinary
// write of the thread that issued it, which others see after a barrier.
#include "passes/Check.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/SharedMemory.h"
#include <set>

namespace sectile {
#define GEN_PASS_DEF_INSERTBARRIERS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

/// Bytes of one alloc, scratch or ring; of one position of a ring where that is known.
struct Place {
  Operation *owner = nullptr;                                   ///< nullptr: anywhere
  int64_t begin = 0, end = std::numeric_limits<int64_t>::max(); ///< of all that the owner has
  Operation *loop = nullptr; ///< what the position counts from, see RingPosition
  int position = -1;         ///< -1: all of it

  auto operator<=>(const Place &) const = default;

  std::pair<int64_t, int64_t> bytes() const {
    if (position < 0 || loop)
      return {begin, end};
    int64_t slot = cast<cta::ChannelOp>(owner).getType().getSlotBytes();
    return {begin + position * slot, begin + (position + 1) * slot};
  }

  bool overlaps(const Place &other) const {
    if (owner && owner == other.owner && loop == other.loop && position >= 0 && other.position >= 0)
      return position == other.position;
    auto [first, last] = bytes();
    auto [otherFirst, otherLast] = other.bytes();
    return first < otherLast && otherFirst < last;
  }
};

/// Something done to shared memory that other threads may not have seen.
struct Pending {
  enum Kind { Read, Write, UnderWay };
  Kind kind;
  Place place;
  int age = 0; ///< of a copy under way: groups closed since its own, -1 while that is open

  auto operator<=>(const Pending &) const = default;
};
using State = std::set<Pending>;

/// What a pipeline may have under way at most; beyond it, copies of any age count as this old.
constexpr int oldest = 64;

class Flow {
public:
  explicit Flow(func::FuncOp kernel) : kernel(kernel) {
    findRings();
    kernel.walk([&](Operation *op) {
      int64_t bytes = sharedBytes(op);
      if (!bytes)
        return;
      int64_t begin = *sharedOffset(op);
      places[op] = {op, begin, begin + bytes};
      if (!isa<cta::AllocOp, cta::ChannelOp>(op))
        scratches[op] = scratchOf(op);
    });
  }

  /// Operations that have a barrier before them, and those before which copies are waited for too.
  DenseSet<Operation *> barriers, waits;

  /// Adds barriers until there is no hazard.
  void insert() {
    adding = true;
    State state;
    visit(kernel.getBody().front(), state);
  }
  bool isSafe() {
    adding = false;
    hazard = false;
    State state;
    visit(kernel.getBody().front(), state);
    return !hazard;
  }

private:
  // Which rings are counted from which loop.
  void findRings() {
    kernel.walk([&](cta::SlotOp slot) {
      if (auto at = ringPosition(slot.getIndex(), depthOf(slot)); at && at->loop)
        rings.insert({at->loop, slot.getChannel().getDefiningOp()});
    });
  }
  static unsigned depthOf(cta::SlotOp slot) { return slot.getChannel().getType().getDepth(); }

  void visit(Block &block, State &state) {
    for (Operation &op : block) {
      visitAccesses(&op, state);
      if (isa<cta::BarrierOp, tile::BarrierOp>(op)) {
        meet(state);
      } else if (isa<cta::AsyncCommitOp>(op)) {
        update(state, [](Pending &p) {
          if (p.kind == Pending::UnderWay)
            p.age = std::min(p.age + 1, oldest);
        });
      } else if (auto wait = dyn_cast<cta::AsyncWaitOp>(op)) {
        int pending = wait.getPending();
        update(state, [&](Pending &p) {
          if (p.kind == Pending::UnderWay && p.age >= pending)
            p = {Pending::Write, p.place};
        });
      } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
        visitFor(loop, state);
      } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
        visitWhile(loop, state);
      } else {
        visitBranches(&op, state);
      }
    }
  }

  void visitAccesses(Operation *op, State &state) {
    if (barriers.contains(op))
      meet(state);
    if (waits.contains(op)) {
      std::erase_if(state, [](const Pending &p) { return p.kind == Pending::UnderWay; });
      meet(state);
    }
    Scratch scratch = scratches.lookup(op);
    SmallVector<Pending, 4> accesses;
    for (const BufferAccess &access : bufferAccesses(op))
      accesses.push_back(pendingOf(access));
    if (scratch.bytes)
      accesses.push_back({Pending::Write, places.lookup(op)});
    for (const Pending &access : accesses)
      order(op, access, state);
    if (scratch.acrossWarps) {
      meet(state);
      accesses.back().kind = Pending::Read;
    }
    state.insert(accesses.begin(), accesses.end());
  }

  Pending pendingOf(const BufferAccess &access) const {
    Place place = places.lookup(access.origin.owner);
    auto channel = dyn_cast_if_present<cta::ChannelOp>(place.owner);
    if (channel && access.origin.index)
      if (auto at = ringPosition(access.origin.index, channel.getType().getDepth())) {
        place.loop = at->loop;
        place.position = at->start;
      }
    switch (access.kind) {
    case BufferAccess::Read:
      return {Pending::Read, place};
    case BufferAccess::Write:
      return {Pending::Write, place};
    case BufferAccess::AsyncWrite:
      return {Pending::UnderWay, place, -1};
    }
    llvm_unreachable("all kinds are covered");
  }

  // Makes sure that what `access` conflicts with is over.
  void order(Operation *op, const Pending &access, State &state) {
    bool conflict = false, underWay = false;
    for (const Pending &before : state)
      if ((before.kind != Pending::Read || access.kind != Pending::Read) &&
          before.place.overlaps(access.place)) {
        conflict = true;
        underWay |= before.kind == Pending::UnderWay;
      }
    if (!conflict)
      return;
    hazard = true;
    if (adding)
      (underWay ? waits : barriers).insert(op);
    if (underWay)
      std::erase_if(state, [](const Pending &p) { return p.kind == Pending::UnderWay; });
    meet(state);
  }

  static void meet(State &state) {
    std::erase_if(state, [](const Pending &p) { return p.kind != Pending::UnderWay; });
  }

  template <typename Change> static void update(State &state, Change change) {
    State result;
    for (Pending pending : state) {
      change(pending);
      result.insert(pending);
    }
    state = std::move(result);
  }

  // Positions are counted from the loop while in it: at its start they are the absolute ones, from
  // one iteration to the next they fall behind by one, and after it they are unknown.
  void visitFor(scf::ForOp loop, State &state) {
    State entry = state;
    update(entry, [&](Pending &p) {
      if (p.place.position >= 0 && !p.place.loop && rings.contains({loop, p.place.owner}))
        p.place.loop = loop;
    });
    State end = repeat(
        entry,
        [&](State in) {
          visit(*loop.getBody(), in);
          return in;
        },
        [&](Pending &p) {
          if (p.place.loop == loop) {
            int depth = cast<cta::ChannelOp>(p.place.owner).getType().getDepth();
            p.place.position = (p.place.position + depth - 1) % depth;
          }
        });
    auto lower = constantInt(loop.getLowerBound()), upper = constantInt(loop.getUpperBound());
    if (lower && upper && *lower < *upper)
      state.clear();
    update(end, [&](Pending &p) {
      if (p.place.loop == loop)
        p.place = places.lookup(p.place.owner);
    });
    state.merge(end);
  }

  void visitWhile(scf::WhileOp loop, State &state) {
    State exit;
    repeat(
        state,
        [&](State in) {
          visit(*loop.getBeforeBody(), in);
          exit = in;
          visit(*loop.getAfterBody(), in);
          return in;
        },
        [](Pending &) {});
    state = std::move(exit);
  }

  // Runs a loop's body until what reaches its start no longer grows; gives what its end leaves.
  template <typename Body, typename Next> static State repeat(State in, Body body, Next next) {
    for (;;) {
      State end = body(in), back = end;
      update(back, next);
      size_t before = in.size();
      in.merge(back);
      if (in.size() == before)
        return end;
    }
  }

  void visitBranches(Operation *op, State &state) {
    if (op->getNumRegions() == 0)
      return;
    State merged;
    for (Region &region : op->getRegions()) {
      State branch = state;
      if (!region.empty())
        visit(region.front(), branch);
      merged.merge(branch);
    }
    state = std::move(merged);
  }

  func::FuncOp kernel;
  DenseMap<Operation *, Place> places;
  DenseMap<Operation *, Scratch> scratches;
  std::set<std::pair<Operation *, Operation *>> rings;
  bool adding = false, hazard = false;
};

int loopDepth(Operation *op) {
  int depth = 0;
  while ((op = op->getParentOp()))
    depth += isa<LoopLikeOpInterface>(op);
  return depth;
}

/// Removes barriers that are not needed, the most often executed first, or moves them out of loops.
void thinOut(Flow &flow, func::FuncOp kernel) {
  SmallVector<std::tuple<int, size_t, Operation *>> byDepth;
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (flow.barriers.contains(op))
      byDepth.push_back({-loopDepth(op), byDepth.size(), op});
  });
  llvm::sort(byDepth);
  for (auto [depth, number, op] : byDepth) {
    flow.barriers.erase(op);
    if (flow.isSafe())
      continue;
    SmallVector<Operation *> loops;
    for (Operation *at = op->getParentOp(); at; at = at->getParentOp())
      if (isa<LoopLikeOpInterface>(at) && !flow.barriers.contains(at))
        loops.push_back(at);
    bool moved = false;
    for (Operation *loop : llvm::reverse(loops)) {
      flow.barriers.insert(loop);
      if ((moved = flow.isSafe()))
        break;
      flow.barriers.erase(loop);
    }
    if (!moved)
      flow.barriers.insert(op);
  }
}

struct InsertBarriers : sectile::impl::InsertBarriersBase<InsertBarriers> {
  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    FailureOr<Target> target = targetOf(kernel);
    if (failed(target) || failed(checkLayouts(kernel, *target)))
      return signalPassFailure();
    WalkResult placed = kernel.walk([](Operation *op) {
      if (!sharedBytes(op) || sharedOffset(op))
        return WalkResult::advance();
      op->emitOpError("has no place in shared memory yet");
      return WalkResult::interrupt();
    });
    if (placed.wasInterrupted())
      return signalPassFailure();
    Flow flow(kernel);
    flow.insert();
    thinOut(flow, kernel);
    kernel.walk([&](Operation *op) {
      bool wait = flow.waits.contains(op);
      if (!wait && !flow.barriers.contains(op))
        return;
      OpBuilder builder(op);
      if (wait) {
        cta::AsyncCommitOp::create(builder, op->getLoc());
        cta::AsyncWaitOp::create(builder, op->getLoc(), 0);
      }
      cta::BarrierOp::create(builder, op->getLoc());
    });
  }
};

} // namespace
