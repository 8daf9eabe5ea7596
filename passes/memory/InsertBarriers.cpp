// Inserts the barriers that hazards over memory need, shared and global, and no more than that.
//
// A forward dataflow carries what the block's threads did to memory since they last met. An access
// that conflicts with it needs a barrier in between. Shared memory is compared by bytes, global
// memory by addresses (analysis/Addresses.h): a thread's own accesses are in order, but a tile may
// be stored by other threads than those that load it next. The barriers found in this way are then
// thinned out: one that others make superfluous goes, and one that a single barrier before its loop
// can stand for moves there.
//
// An asynchronous copy is in flight from its issue until async_wait; that makes it an ordinary
// read and write of the thread that issued it, which other threads see after a barrier.
//
// Matrix instructions that read shared memory themselves do so through another proxy, and the copy
// engine writes through it. What a thread wrote before is there only once the thread has fenced its
// writes and met the others: a barrier that some such access depends on gets a fence before it.
// What the engine writes is read after a wait at its mbarrier, and needs no barrier; what it
// overwrites has to be read by then, and fenced likewise. All threads have to have passed that wait
// by then too, whether they read the slot or not: a thread that finds two phases over instead of
// one waits for ever.
//
// The dataflow is a walk of its own rather than MLIR's framework: control flow is structured, and
// thinning runs the walk again without each barrier, for which the framework would set up its
// solver every time.
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/Addresses.h"
#include "passes/analysis/MemoryOrder.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/analysis/Warps.h"
#include "passes/checks/Check.h"
#include "llvm/ADT/MapVector.h"
#include <set>
#include <unordered_map>

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
  const void *base = nullptr; ///< the count that the position is relative to, see LinearCount
  int position = -1;          ///< -1: all of it

  auto operator<=>(const Place &) const = default;

  std::pair<int64_t, int64_t> bytes() const {
    if (position < 0 || base)
      return {begin, end};
    int64_t slot = cast<cta::ChannelOp>(owner).getType().getSlotBytes();
    return {begin + position * slot, begin + (position + 1) * slot};
  }

  bool overlaps(const Place &other) const {
    if (owner && owner == other.owner && base == other.base && position >= 0 && other.position >= 0)
      return position == other.position;
    auto [first, last] = bytes();
    auto [otherFirst, otherLast] = other.bytes();
    return first < otherLast && otherFirst < last;
  }
};

/// An access of global memory: whether two need order follows from their kinds and how far their
/// constants are apart. A kernel has far fewer kinds than accesses.
struct GlobalOfKind {
  GlobalAccess access;
  unsigned kind = 0;
  SmallVector<int64_t, 4> constants; ///< of its address, and of its places in a view
};

/// All that decides whether two such accesses need order. Each is compared with all that are
/// pending, so this has to be quick.
struct Comparison {
  unsigned first, second; ///< their kinds
  EndedIterations ended;
  SmallVector<int64_t, 4> apart; ///< their constants

  bool operator==(const Comparison &) const = default;
};
struct HashOfComparison {
  size_t operator()(const Comparison &c) const {
    return llvm::hash_combine(c.first, c.second, c.ended,
                              llvm::hash_combine_range(c.apart.begin(), c.apart.end()));
  }
};

/// Something done to memory that other threads may not have seen.
struct Pending {
  const GlobalOfKind *global = nullptr; ///< or else to shared memory
  Place place;
  bool writes = false;
  bool inFlight = false;     ///< a copy or a dot in flight that has not been waited for
  bool byProxy = false;      ///< a dot's or the engine's, which does not see what was not fenced
  bool met = false;          ///< a write that others have seen since, but not such reads
  int age = 0;               ///< groups closed since the copy's own, -1 while that is open; dots
                             ///< started since
  EndedIterations ended = 0; ///< iterations that changed a global access's address since

  bool isCopyInFlight() const { return inFlight && !byProxy; }
  bool isDotInFlight() const { return inFlight && byProxy; }

  auto operator<=>(const Pending &) const = default;
};
using State = std::set<Pending>;

/// What a barrier is for: one for global memory orders shared memory too.
enum class Orders { Shared, Global };

/// What a pipeline may have in flight at most; beyond it, copies of any age count as this old.
constexpr int oldest = 64;

/// Barriers with more pending ahead of them are always judged by a walk of the kernel.
constexpr size_t mostNoted = 64;

class Flow {
public:
  /// `partition`: the block of the main one, or of one that computes.
  Flow(func::FuncOp kernel, Block &partition, const Target &target)
      : kernel(kernel), partition(partition), barrierOrdersGlobal(target.barrierOrdersGlobal),
        addresses(kernel) {
    findRings();
    kernel.walk([&](Operation *op) {
      if (isThroughProxy(op, target))
        throughProxy.insert(op);
      if (auto copy = dyn_cast<cta::TensorCopyOp>(op))
        filledBy[copy.getBarriers().getDefiningOp()] = originOf(copy.getBuffer()).owner;
      if (std::optional<GlobalAccess> access = addresses.accessOf(op))
        globals[op] = ofKind(*std::move(access));
      int64_t bytes = sharedBytes(op);
      if (!bytes)
        return;
      int64_t begin = *sharedOffset(op);
      places[op] = {op, begin, begin + bytes};
      if (!isa<cta::AllocOp, cta::ChannelOp, cta::MbarriersOp>(op))
        scratches[op] = scratchOf(op);
    });
    for (Operation *op : throughProxy)
      for (const BufferAccess &access : bufferAccesses(op)) {
        const Place place = places.lookup(access.origin.owner);
        reachedByProxy.push_back(place);
        if (access.kind != BufferAccess::Read)
          writtenByProxy.push_back(place);
      }
  }

  /// Operations that have a barrier before them, and those before which copies are waited for too.
  DenseMap<Operation *, Orders> barriers, waits;

  /// Which of them need a fence: found by the last walk.
  DenseSet<Operation *> fences;
  /// What writes to an operand of a dot in flight, which no barrier makes right.
  Operation *overwritten = nullptr;

  /// Adds barriers until there is no hazard.
  void insert() {
    adding = true;
    State state;
    visit(partition, state);
  }
  bool isSafe() {
    adding = false;
    hazard = false;
    fences.clear();
    met.clear();
    State state;
    visit(partition, state);
    if (!hazard)
      known = std::move(met);
    return !hazard;
  }
  /// isSafe() after a change of the barrier at `op` in a kernel that was safe: mostly the
  /// operations up to the next barriers tell.
  bool isSafeAt(Operation *op) {
    std::optional<bool> near = isSafeNear(op);
    return near ? *near : isSafe();
  }
  /// Whether a barrier ahead of a block's operations, in place of that at `op`, cannot be enough:
  /// there is a hazard between what comes after the barrier before it and what follows.
  bool isNeededInItsBlock(Operation *op) {
    Operation *from = op;
    while (Operation *before = from->getPrevNode()) {
      from = before;
      if (barriers.contains(from) || waits.contains(from))
        break;
    }
    adding = false;
    hazard = false;
    State state;
    for (Operation *at = from; at && !hazard; at = at->getNextNode()) {
      const bool isLater = at != from && at != op;
      if (isLater && (barriers.contains(at) || waits.contains(at)))
        break;
      visitOp(at, state);
    }
    return std::exchange(hazard, false);
  }
  /// Whether it matters what a barrier is for.
  bool ordersDiffer() const { return !barrierOrdersGlobal; }

private:
  GlobalOfKind ofKind(GlobalAccess access) {
    SmallVector<int64_t, 4> constants;
    const auto variableOf = [&](Address address) {
      constants.push_back(0);
      if (auto at = address.find({}); at != address.end()) {
        constants.back() = at->second;
        address.erase(at);
      }
      return address;
    };
    std::vector<Address> variables{variableOf(access.address)};
    std::vector<const void *> sizes;
    if (access.inView) {
      variables.push_back(access.inView->base);
      for (const Address &place : access.inView->places)
        variables.push_back(variableOf(place));
      for (Value size : access.inView->sizes)
        sizes.push_back(size.getAsOpaquePointer());
    }
    std::vector<const void *> roots;
    for (Value root : access.roots)
      roots.push_back(root.getAsOpaquePointer());
    const unsigned kind =
        kinds
            .try_emplace({access.reads, access.writes, access.once, access.asynchronous,
                          access.commutes, std::move(roots), std::move(variables), std::move(sizes),
                          access.shape.vec(), access.layout, access.bytes, access.loops},
                         kinds.size())
            .first->second;
    return {std::move(access), kind, std::move(constants)};
  }

  // What isSafeAt() finds out from what was pending ahead of the operation, if that is enough.
  std::optional<bool> isSafeNear(Operation *op) {
    auto start = known.find(op);
    if (start == known.end())
      return std::nullopt;
    adding = false;
    hazard = false;
    std::map<Operation *, Around> changed;
    State state = start->second.before;
    bool isSame = false;
    for (Operation *at = op; at && !isSame; at = at->getNextNode()) {
      if (at->getNumRegions() && hasBarriers(at))
        return std::nullopt; // theirs would change too
      if (auto barrier = barriers.find(at); barrier != barriers.end() || waits.contains(at)) {
        auto around = known.find(at);
        if (around == known.end() || waits.contains(at))
          return std::nullopt;
        State after = state;
        meet(after, barrier->second, at);
        isSame = at != op && after == around->second.after;
        changed[at] = {state, std::move(after)};
      }
      if (isSame)
        break;
      visitOp(at, state);
      if (hazard)
        return false;
    }
    // A loop's next iteration would begin with something else.
    if (!isSame && op->getBlock() != &partition)
      return std::nullopt;
    known.erase(op);
    for (auto &[at, around] : changed)
      known[at] = std::move(around);
    return true;
  }
  bool hasBarriers(Operation *op) const {
    return anyIn(op, [&](Operation *inner) {
      return inner != op && (barriers.contains(inner) || waits.contains(inner));
    });
  }

  // Which counts the buffers of which rings are told apart by.
  void findRings() {
    llvm::MapVector<Operation *, SmallVector<Value>> bases;
    kernel.walk([&](cta::SlotOp slot) {
      if (auto count = ringPosition(slot.getIndex(), depthOf(slot)); count && count->base)
        bases[slot.getChannel().getDefiningOp()].push_back(count->base);
    });
    for (auto &[channel, counts] : bases)
      for (const void *count : countsOf(counts))
        rings.insert({count, channel});
  }
  static unsigned depthOf(cta::SlotOp slot) { return slot.getChannel().getType().getDepth(); }
  bool isRing(Value count, Operation *channel) const {
    return rings.contains({count.getAsOpaquePointer(), channel});
  }

  // Makes a position that is relative to what `from` counts relative to `to`, which is that value.
  // Says whether there is such a count.
  bool rebase(Place &place, ValueRange from, ValueRange to) const {
    if (place.position < 0)
      return false;
    for (auto [source, target] : llvm::zip_equal(from, to)) {
      std::optional<LinearCount> count = linearCount(source);
      if (!count || count->base.getAsOpaquePointer() != place.base || !isRing(target, place.owner))
        continue;
      int depth = cast<cta::ChannelOp>(place.owner).getType().getDepth();
      place.base = target.getAsOpaquePointer();
      const int slot = count->base ? count->offset % depth : cta::slotAt(count->offset, depth);
      place.position = (place.position + depth - slot) % depth;
      return true;
    }
    return false;
  }
  // At the end of the loop's body, whose own counts are others afterwards.
  void leave(scf::ForOp loop, Place &place, ValueRange to) const {
    if (rebase(place, loop.getYieldedValues(), to) || !place.base)
      return;
    Value base = Value::getFromOpaquePointer(place.base);
    if (loop.getRegion().isAncestor(base.getParentRegion()))
      place = places.lookup(place.owner);
  }

  void visit(Block &block, State &state) {
    for (Operation &op : block) {
      if (hazard && !adding)
        return; // that is all that is asked
      visitOp(&op, state);
    }
  }

  void visitOp(Operation *op, State &state) {
    // Mbarriers order what partitions do, as check-channels sees. What they have alone is placed
    // apart from all that others have.
    if (isa<cta::PartitionOp>(op))
      return;
    visitAccesses(op, state);
    if (isa<cta::BarrierOp, cta::ClusterBarrierOp>(op)) {
      meet(state, Orders::Shared);
    } else if (isa<tile::BarrierOp>(op)) {
      meet(state, Orders::Global);
    } else if (isa<cta::AsyncCommitOp>(op)) {
      update(state, [](Pending &p) {
        if (p.isCopyInFlight())
          p.age = std::min(p.age + 1, oldest);
      });
    } else if (auto wait = dyn_cast<cta::AsyncWaitOp>(op)) {
      int pending = wait.getPending();
      update(state, [&](Pending &p) {
        if (p.isCopyInFlight() && p.age >= pending)
          p.inFlight = false, p.age = 0;
      });
    } else if (auto wait = dyn_cast<cta::DotsWaitOp>(op)) {
      completeDots(state, wait.getPending());
    } else if (auto wait = dyn_cast<cta::DotWaitOp>(op)) {
      completeDots(state, wait.getPending());
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      visitFor(loop, state);
    } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
      visitWhile(loop, state);
    } else {
      visitBranches(op, state);
    }
  }

  void visitAccesses(Operation *op, State &state) {
    if (auto at = barriers.find(op); at != barriers.end()) {
      const bool isNoted = !adding && state.size() <= mostNoted;
      if (!isNoted)
        met.erase(op); // of an earlier round of a loop
      if (isNoted)
        met[op].before = state;
      meet(state, at->second, op);
      if (isNoted)
        met[op].after = state;
    }
    if (auto at = waits.find(op); at != waits.end())
      meetAfterCopies(op, state, at->second);
    auto [meetsBefore, meetsAfter] = meetsAround(op);
    if (meetsBefore)
      meet(state, Orders::Global);
    Scratch scratch = scratches.lookup(op);
    SmallVector<Pending, 4> accesses;
    const bool starts = isa<cta::DotStartOp>(op) && throughProxy.contains(op);
    if (starts)
      update(state, [](Pending &p) {
        if (p.isDotInFlight())
          p.age = std::min(p.age + 1, oldest);
      });
    for (const BufferAccess &access : bufferAccesses(op)) {
      accesses.push_back(pendingOf(access));
      accesses.back().byProxy = throughProxy.contains(op);
      accesses.back().inFlight |= starts;
    }
    if (auto wait = dyn_cast<cta::MbarrierWaitOp>(op))
      if (Operation *ring = filledBy.lookup(wait.getBarriers().getDefiningOp())) {
        accesses.push_back(pendingOf({BufferAccess::Read, {ring, wait.getIndex(), {}}}));
        accesses.back().byProxy = true; // it reads no slot, which would take a fence
      }
    if (auto at = globals.find(op); at != globals.end())
      accesses.push_back(pendingOf(at->second));
    if (scratch.bytes) {
      Pending write;
      write.place = places.lookup(op);
      write.writes = true;
      accesses.push_back(write);
    }
    for (const Pending &access : accesses)
      order(op, access, state);
    // Engine writes are not recorded: their readers are ordered by the mbarrier wait.
    if (isa<cta::TensorCopyOp, cta::ClusterAcquireOp, cta::ClusterBarrierOp>(op))
      return;
    if (meetsAfter) {
      // What it did to memory is over before its scratch passes the result on.
      llvm::erase_if(accesses, [](const Pending &p) { return p.global && !p.inFlight; });
      meet(state, Orders::Global);
    }
    state.insert(accesses.begin(), accesses.end());
    if (scratch.acrossWarps) {
      // What was written there stays hidden from what does not see it without a fence.
      meet(state, Orders::Shared);
      accesses.back().writes = false;
      state.insert(accesses.back());
    }
  }

  static Pending pendingOf(const GlobalOfKind &global) {
    Pending pending;
    pending.global = &global;
    pending.writes = global.access.writes;
    pending.inFlight = global.access.asynchronous;
    pending.age = global.access.asynchronous ? -1 : 0;
    return pending;
  }

  Pending pendingOf(const BufferAccess &access) const {
    Place place = places.lookup(access.origin.owner);
    auto channel = dyn_cast_if_present<cta::ChannelOp>(place.owner);
    if (channel && access.origin.index)
      if (auto at = ringPosition(access.origin.index, channel.getType().getDepth())) {
        place.base = at->base.getAsOpaquePointer();
        place.position = at->offset;
      }
    Pending pending;
    pending.place = place;
    pending.writes = access.kind != BufferAccess::Read;
    pending.inFlight = access.kind == BufferAccess::AsyncWrite;
    pending.age = pending.inFlight ? -1 : 0;
    return pending;
  }

  bool conflict(const Pending &before, const Pending &access) {
    if ((!before.writes && !access.writes) || (before.met && !access.byProxy))
      return false;
    if (!before.global || !access.global)
      return !before.global && !access.global && before.place.overlaps(access.place);
    Comparison comparison{before.global->kind, access.global->kind, before.ended, {}};
    for (auto [from, to] : llvm::zip(before.global->constants, access.global->constants))
      comparison.apart.push_back(to - from);
    auto [at, isNew] = compared.try_emplace(std::move(comparison));
    if (isNew)
      at->second = addresses.needsOrder(before.global->access, access.global->access, before.ended);
    return at->second;
  }

  // Makes sure that what `access` conflicts with is over.
  void order(Operation *op, const Pending &access, State &state) {
    bool conflicts = false, inFlight = false;
    for (const Pending &before : state)
      if (conflict(before, access)) {
        conflicts = true;
        inFlight |= before.isCopyInFlight();
        if (before.isDotInFlight())
          overwritten = op;
      }
    if (!conflicts)
      return;
    hazard = true;
    Orders orders = access.global ? Orders::Global : Orders::Shared;
    if (adding) {
      auto [at, isNew] = (inFlight ? waits : barriers).try_emplace(op, orders);
      at->second = std::max(at->second, orders);
    }
    if (inFlight)
      meetAfterCopies(op, state, orders);
    else
      meet(state, orders, op);
  }

  /// Whether instructions read what it writes, or write what it reads, that do not see it without a
  /// fence.
  bool isHidden(const Pending &p) const {
    return !p.global && !p.inFlight && !p.byProxy &&
           llvm::any_of(p.writes ? reachedByProxy : writtenByProxy,
                        [&](const Place &other) { return other.overlaps(p.place); });
  }

  // `before`: the operation that a barrier of this pass is placed at, which may have a fence.
  void meet(State &state, Orders orders, Operation *before = nullptr) {
    auto hidden = [&](const Pending &p) { return isHidden(p); };
    if (before && llvm::any_of(state, hidden))
      fences.insert(before);
    else if (!before)
      update(state, [&](Pending &p) { p.met |= hidden(p); });
    bool global = orders == Orders::Global || barrierOrdersGlobal;
    std::erase_if(state, [&](const Pending &p) {
      return !p.inFlight && (before || !p.met) && (global || !p.global);
    });
  }
  void meetAfterCopies(Operation *op, State &state, Orders orders) {
    update(state, [](Pending &p) {
      if (p.isCopyInFlight())
        p.inFlight = false, p.age = 0;
    });
    meet(state, orders, op);
  }
  static void completeDots(State &state, int pending) {
    update(state, [&](Pending &p) {
      if (p.isDotInFlight() && p.age >= pending)
        p.inFlight = false, p.age = 0;
    });
  }

  template <typename Change> static void update(State &state, Change change) {
    State result;
    for (Pending pending : state) {
      change(pending);
      result.insert(pending);
    }
    state = std::move(result);
  }

  // The counts that a loop carries start as others, become others from one iteration to the next,
  // and are results after it.
  void visitFor(scf::ForOp loop, State &state) {
    const ValueRange inits = loop.getInitArgs(), carried = loop.getRegionIterArgs(),
                     results = loop.getResults();
    State entry = state;
    update(entry, [&](Pending &p) { rebase(p.place, inits, carried); });
    State end = repeat(
        entry,
        [&](State in) {
          visit(*loop.getBody(), in);
          return in;
        },
        [&](Pending &p) {
          leave(loop, p.place, carried);
          endIteration(p, loop);
        });
    auto lower = constantInt(loop.getLowerBound()), upper = constantInt(loop.getUpperBound());
    if (lower && upper && *lower < *upper)
      state.clear();
    else
      update(state, [&](Pending &p) { rebase(p.place, inits, results); });
    update(end, [&](Pending &p) { leave(loop, p.place, results); });
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
        [&](Pending &p) { endIteration(p, loop); });
    state = std::move(exit);
  }

  void endIteration(Pending &pending, Operation *loop) const {
    if (pending.global)
      pending.ended |= addresses.bitOf(loop) & pending.global->access.loops;
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
  Block &partition;
  const bool barrierOrdersGlobal; ///< also one that is for shared memory
  AddressAnalysis addresses;
  std::map<Operation *, GlobalOfKind> globals;
  /// By all of an access but the constant of its address.
  std::map<std::tuple<bool, bool, bool, bool, std::optional<tile::AtomicKind>,
                      std::vector<const void *>, std::vector<Address>, std::vector<const void *>,
                      std::vector<int64_t>, const Layout *, int64_t, EndedIterations>,
           unsigned>
      kinds;
  std::unordered_map<Comparison, bool, HashOfComparison> compared;
  /// What was pending ahead of a barrier, and after it: by the last walk, and by the last safe one.
  struct Around {
    State before, after;
  };
  std::map<Operation *, Around> met, known;
  DenseMap<Operation *, Place> places;
  DenseMap<Operation *, Scratch> scratches;
  DenseSet<Operation *> throughProxy;
  DenseMap<Operation *, Operation *> filledBy; ///< for mbarriers, a ring whose copies count there
  SmallVector<Place> reachedByProxy, writtenByProxy;
  std::set<std::pair<const void *, Operation *>> rings; ///< by count
  bool adding = false, hazard = false;
};

int loopDepth(Operation *op) {
  int depth = 0;
  while ((op = op->getParentOp()))
    depth += isa<LoopLikeOpInterface>(op);
  return depth;
}

/// Removes barriers that are not needed, the most often executed first, moves them out of loops, or
/// lets them order less.
void thinOut(Flow &flow, func::FuncOp kernel) {
  flow.isSafe();
  SmallVector<std::tuple<int, size_t, Operation *>> byDepth;
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (flow.barriers.contains(op))
      byDepth.push_back({-loopDepth(op), byDepth.size(), op});
  });
  llvm::sort(byDepth);
  for (auto [depth, number, op] : byDepth) {
    const Orders orders = flow.barriers.lookup(op);
    flow.barriers.erase(op);
    if (flow.isSafeAt(op))
      continue;
    SmallVector<Operation *> loops;
    for (Operation *at = op->getParentOp(); at; at = at->getParentOp())
      if (isa<LoopLikeOpInterface>(at) && !flow.barriers.contains(at))
        loops.push_back(at);
    if (!loops.empty() && flow.isNeededInItsBlock(op))
      loops.clear();
    Operation *place = op;
    for (Operation *loop : llvm::reverse(loops)) {
      flow.barriers[loop] = orders;
      if (flow.isSafe()) {
        place = loop;
        break;
      }
      flow.barriers.erase(loop);
    }
    flow.barriers[place] = orders;
    if (orders == Orders::Shared || !flow.ordersDiffer())
      continue;
    flow.barriers[place] = Orders::Shared;
    if (!flow.isSafeAt(place))
      flow.barriers[place] = orders;
  }
}

struct InsertBarriers : sectile::impl::InsertBarriersBase<InsertBarriers> {
  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    FailureOr<Target> target = targetOf(kernel);
    if (failed(target) || failed(checkLayouts(kernel, *target)))
      return signalPassFailure();
    const LogicalResult placed = checkAll(kernel, [](Operation *op) -> LogicalResult {
      return !sharedBytes(op) || sharedOffset(op)
                 ? success()
                 : op->emitOpError("has no place in shared memory yet");
    });
    if (failed(placed))
      return signalPassFailure();
    SmallVector<Block *> partitions{&kernel.getBody().front()};
    for (cta::PartitionOp partition : computingPartitionsOf(kernel))
      partitions.push_back(&partition.getBody().front());
    for (Block *block : partitions)
      if (failed(order(kernel, *block, *target)))
        return signalPassFailure();
    llvm::for_each(allIn<cta::TurnWaitOp>(kernel), dropTurn);
  }

  /// Takes out a turn within which all warps meet: those that wait for it would never come. A loop
  /// of turns takes as many as it passes on, so that it can lack them.
  static void dropTurn(cta::TurnWaitOp wait) {
    bool meets = false;
    for (Operation *op = wait->getNextNode(); op; op = op->getNextNode()) {
      meets |= anyIn(op, [](Operation *inside) {
        return isa<cta::BarrierOp, cta::ClusterBarrierOp, tile::BarrierOp>(inside);
      });
      auto pass = dyn_cast<cta::TurnPassOp>(op);
      if (!pass)
        continue;
      if (meets) {
        wait.emitRemark("warpgroups do not start these dots in turn: a barrier is among them");
        pass.erase();
        wait.erase();
      }
      return;
    }
  }

  static LogicalResult order(func::FuncOp kernel, Block &partition, const Target &target) {
    Flow flow(kernel, partition, target);
    flow.insert();
    if (flow.overwritten)
      return channelError(flow.overwritten) << "overwrites what a dot in flight reads";
    thinOut(flow, kernel);
    [[maybe_unused]] bool isSafe = flow.isSafe(); // finds the fences
    assert(isSafe && "thinning leaves no hazard");
    kernel.walk([&](Operation *op) {
      auto wait = flow.waits.find(op), barrier = flow.barriers.find(op);
      bool waits = wait != flow.waits.end();
      if (!waits && barrier == flow.barriers.end())
        return;
      OpBuilder builder(op);
      if (waits) {
        cta::AsyncCommitOp::create(builder, op->getLoc());
        cta::AsyncWaitOp::create(builder, op->getLoc(), 0);
      }
      Orders orders = waits ? wait->second : barrier->second;
      if (barrier != flow.barriers.end())
        orders = std::max(orders, barrier->second);
      if (flow.fences.contains(op))
        cta::ProxyFenceOp::create(builder, op->getLoc());
      if (orders == Orders::Global)
        tile::BarrierOp::create(builder, op->getLoc());
      else
        cta::BarrierOp::create(builder, op->getLoc());
    });
    return success();
  }
};

} // namespace
