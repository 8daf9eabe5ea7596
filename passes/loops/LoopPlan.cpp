// Chooses what becomes of a loop, by one decision after another.
#include "passes/loops/LoopPlan.h"
#include "ir/MmaElements.h"
#include "ir/layout/TensorBoxes.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "passes/Kernel.h"
#include "passes/analysis/Registers.h"
#include "passes/analysis/VectorLength.h"
#include "passes/analysis/Warps.h"
#include "passes/loops/LoopHints.h"
#include "passes/loops/LoopResources.h"
#include "passes/partitions/PartitionWarps.h"

using namespace mlir;

namespace sectile {

Operation *loadOf(Value tile) {
  Operation *op = tile.getDefiningOp();
  if (op && isLoad(op))
    return op;
  Value block = blockOfLines(tile);
  return block ? block.getDefiningOp<tile::LoadBlockOp>() : nullptr;
}

namespace {

RankedTensorType tileType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The axis of a tile along which what the engine copies of a load has neighbours.
unsigned denseAxis(tile::LoadBlockOp load, Value tile) {
  return tile == load.getResult() ? *denseDimension(madeView(load.getView())) : 1;
}
/// What the engine fills with it.
cta::BufferType engineBufferOf(Operation *load, Value tile) {
  return *engineBuffer(tileType(tile), denseAxis(cast<tile::LoadBlockOp>(load), tile));
}

} // namespace

/// Whether the kernel may write what a load reads, in the outermost loop around it or before: the
/// engine reads memory through a proxy of its own, which does not see that.
static bool mayBeWrittenBefore(Operation *load, AddressAnalysis &addresses) {
  Operation *outermost = outermostAround(load->getParentOfType<scf::ForOp>());
  const GlobalAccess read = *addresses.accessOf(load);
  return anyIn(load->getParentOfType<func::FuncOp>(), [&](Operation *op) {
    std::optional<GlobalAccess> access = addresses.accessOf(op);
    Operation *top = outermost->getBlock()->findAncestorOpInBlock(*op);
    return access && access->writes && top && !outermost->isBeforeInBlock(top) &&
           addresses.mayEverOverlap(*access, read);
  });
}

std::string whyNotByEngine(Operation *op, Value tile, const ContiguityAnalysis &contiguity,
                           AddressAnalysis &addresses, const Target &target) {
  if (!target.tensorCopy)
    return "there is no copy engine, and threads copy a block in its own dimensions only";
  auto load = dyn_cast<tile::LoadBlockOp>(op);
  if (!load)
    return "it is by pointers, not from a view";
  auto loop = cast<scf::ForOp>(load->getParentOp());
  bool inBranch = false;
  for (Operation *around = loop->getParentOp(); !isa<func::FuncOp>(around);
       around = around->getParentOp()) {
    if (isa<scf::IfOp>(around))
      inBranch = true;
    else if (!isa<scf::ForOp>(around) || inBranch)
      return "its loop is within a branch of another loop, or within a loop without a count";
  }
  if (load.getCache() != tile::Cache::Default || load.getEviction() != tile::Eviction::Normal)
    return "it has a hint for the cache";
  if (mayBeWrittenBefore(load, addresses))
    return "the kernel may write it before";
  std::string why = whyNoTensorBlock(*blockOf(load), contiguity);
  if (!why.empty())
    return why;
  if (std::string none = whyNoBoxes(tileType(tile), denseAxis(load, tile)); !none.empty())
    return none;
  const cta::BufferType buffer = engineBufferOf(load, tile);
  const TensorBoxes boxes =
      *planTensorBoxes(buffer.getLayout().getLayout(), cta::elementBits(buffer));
  return tile == load.getResult() || boxes.hasWholeColumns() ? "" : "it has too many lines";
}

std::optional<SmallVector<FetchedLoad>> loadsByEngine(scf::ForOp loop, const SharedTiles &tiles,
                                                      const ContiguityAnalysis &contiguity,
                                                      const Target &target) {
  AddressAnalysis addresses(loop->getParentOfType<func::FuncOp>());
  SmallVector<FetchedLoad> loads;
  for (const auto &[root, tile] : tiles) {
    Operation *load = loadOf(root);
    if (!load || load->getBlock() != loop.getBody())
      continue;
    if (!whyNotByEngine(load, root, contiguity, addresses, target).empty())
      return std::nullopt;
    loads.push_back({load, root, engineBufferOf(load, root), tile.uses});
  }
  return loads;
}

namespace {

class Planner {
public:
  Planner(scf::ForOp loop, unsigned stages, const SharedTiles &tiles, ArrayRef<Ring> rings,
          const ContiguityAnalysis &contiguity, const Target &target)
      : loop(loop), kernel(loop->getParentOfType<func::FuncOp>()), tiles(tiles), rings(rings),
        contiguity(contiguity), target(target), addresses(kernel), resources(kernel, tiles, target),
        plan{.loop = loop,
             .stages = stages,
             .producer = target.asyncCopy ? Producer::Copies : Producer::Registers} {}

  LoopPlan run() {
    fetchOperands();
    if (loop->hasAttr(cta::stagesAttr) && !anyIn(loop, [](cta::DotOp) { return true; })) {
      fetchOthers();
    } else if (target.asyncCopy) {
      plan.depth = loop->hasAttr(onceAttr) ? 1 : plan.stages;
      const ComputedFrom computed = computedFrom();
      fetchComputedFrom(computed.loads);
      if (hints::asksForProducer(loop)) {
        leaveRowsToThreads();
        addMasks(computed.masks);
      }
      copyByEngine();
      if (!leaveToProducer() && !keepDotInFlight()) {
        makeRoomAround();
        leaveOut(computed.loads);
        leaveInBranches();
        lessen();
      }
      carryRows();
      plan.takesTurns = canTakeTurns();
      sayWhyComplete();
    } else {
      // Registers hold what operands are computed from already.
      plan.depth = resources.depthThatFits(plan.loads, plan.stages > 2 ? 2 : 1, kernel);
    }
    if (plan.depth == 0) {
      plan.inFlight.clear();
      for (const FetchedLoad &load : std::exchange(plan.loads, {}))
        remark(load.load, "this load goes to shared memory in its own iteration: there is no room "
                          "to keep its buffer");
    }
    if (plan.loads.empty() && plan.carried.empty() && loop->hasAttr(cta::stagesAttr))
      remark(loop, "a hint has no effect: stages: no load of this loop is fetched ahead");
    return std::move(plan);
  }

private:
  void remark(Operation *at, const Twine &text) { plan.remarks.push_back({at, text.str()}); }

  void fetch(Operation *load, Value root, SharedTile tile) {
    for (Operation *user : otherUsersOf(load->getResult(0), tile.uses)) {
      auto convert = dyn_cast<cta::ConvertLayoutOp>(user);
      Value read = convert ? Value(convert.getResult()) : load->getResult(0);
      tile.readers.push_back(*cta::layoutOf(read.getType()));
    }
    std::optional<unsigned> vector;
    if (target.asyncCopy)
      vector = copiedAtOnce(load, contiguity, target);
    plan.loads.push_back({load, root, chooseBuffer(tileType(root), tile, target, vector), tile.uses,
                          vector.value_or(0)});
  }

  /// Loads that dots read from shared memory.
  void fetchOperands() {
    for (const auto &[root, tile] : tiles) {
      Operation *load = loadOf(root);
      if (!load || load->getBlock() != loop.getBody())
        continue;
      if (std::string why = whyNotOperand(load, root, tile); !why.empty())
        remark(load,
               "this load goes through registers to shared memory, not ahead of its loop: " + why);
      else
        fetch(load, root, tile);
    }
  }

  std::string whyNotOperand(Operation *load, Value root, const SharedTile &tile) {
    std::string why;
    if (root != load->getResult(0))
      why = whyNotByEngine(load, root);
    else if (target.asyncCopy)
      why = whyNotAsync(load);
    if (!why.empty())
      return why;
    if (target.asyncCopy && tile.along &&
        *tile.along != fastestAxis(*cta::layoutOf(load->getResult(0).getType())))
      return "the dot's instruction reads neighbours along the inner dimension, and those in "
             "memory lie across it";
    // Registers that carry it on have it no more when the iteration computes.
    const auto others = otherUsersOf(load->getResult(0), tile.uses);
    if (!others.empty() && (root != load->getResult(0) || !target.asyncCopy))
      return ("it is also used by " + others.front()->getName().getStringRef()).str();
    return whyNotAhead(loop, load, plan.producer, addresses);
  }

  /// Loads that operands are computed from.
  void fetchComputedFrom(ArrayRef<Operation *> loads) {
    for (Operation *load : loads) {
      if (isFetched(load))
        continue;
      std::string why = whyNotAsync(load);
      if (why.empty())
        why = whyNotAhead(loop, load, plan.producer, addresses);
      if (why.empty())
        fetch(load, load->getResult(0), {});
      else
        staying[load] = why;
    }
  }

  /// Has what few registers hold, and no ring does, made one iteration ahead, as the scales of a
  /// block, a mask of bytes, a row with padding: else threads wait for memory before a dot, or
  /// behind the only one. Beside a producer, warpgroups cover each other's waits.
  void carryRows() {
    const auto dots = allIn<cta::DotOp>(loop);
    unsigned held = 0;
    if (!dots.empty() && plan.producer != Producer::Partition && !isAround() &&
        !hasChannelsByHand(kernel))
      for (Operation &op : loop.getBody()->without_terminator()) {
        if (!isLoad(&op) || !isa<RankedTensorType>(op.getResult(0).getType()) || op.use_empty() ||
            isFetched(&op) || tiles.contains(op.getResult(0)))
          continue;
        const unsigned taken = registersOf(op.getResult(0).getType());
        if ((dots.size() > 1 && !staying.contains(&op)) || held + taken > registersOfRows ||
            leadsToLoad(&op) || !whyNotAhead(loop, &op, Producer::Registers, addresses).empty())
          continue;
        held += taken;
        plan.carried.push_back(&op);
      }
    for (const auto &[load, why] : staying)
      if (!llvm::is_contained(plan.carried, load))
        remark(load, "this load stays in its loop, not ahead of it: " + why);
      else if (plan.stages > 2)
        remark(load, "this load is one iteration ahead, in registers: " + why);
  }
  static constexpr unsigned registersOfRows = 4;

  bool isFetched(Operation *load) {
    return llvm::any_of(plan.loads, [&](const FetchedLoad &other) { return other.load == load; });
  }

  /// Whether the loop computes an address from what a load gives.
  bool leadsToLoad(Operation *load) {
    return anyIn(loop, [&](Operation *other) {
      return other != load && isLoad(other) && followsFrom(loop, other, load);
    });
  }

  /// In a loop without dots, all loads of its body: copied to shared memory, so that as many
  /// iterations as it has stages are in flight, or made one iteration ahead in registers, where two
  /// stages are asked for or nothing can be copied.
  void fetchOthers() {
    SmallVector<Operation *> loads;
    for (Operation &op : loop.getBody()->without_terminator())
      if (isLoad(&op) && !op.use_empty())
        loads.push_back(&op);
    // What an address follows from is loaded ahead with the load that it is for.
    llvm::erase_if(loads, [&](Operation *load) {
      return llvm::any_of(
          loads, [&](Operation *other) { return other != load && followsFrom(loop, other, load); });
    });
    for (Operation *load : loads) {
      std::string why = whyNotAhead(loop, load, Producer::Registers, addresses);
      if (!why.empty())
        remark(load, "this load stays in its loop, not ahead of it: " + why);
      else if (whyNotCopied(load).empty())
        fetch(load, load->getResult(0), {});
      else
        plan.carried.push_back(load);
    }
    plan.depth = resources.depthThatFits(plan.loads, plan.stages, loop);
    if (plan.depth < std::min(plan.stages, 3u)) // no further ahead than registers are
      for (const FetchedLoad &load : std::exchange(plan.loads, {}))
        plan.carried.push_back(load.load);
    if (!plan.loads.empty())
      sayHowDeep(plan.depth, "in shared memory");
    leaveToRegisters();
  }

  std::string whyNotCopied(Operation *load) {
    if (plan.stages == 2)
      return "registers do the same for two stages";
    if (!target.asyncCopy)
      return "the chip has no asynchronous copies";
    if (!isa<RankedTensorType>(load->getResult(0).getType()))
      return "it is one number";
    if (Type element = tile::elementType(load->getResult(0).getType());
        !element.isIntOrFloat() || element.isInteger(1))
      return "its elements are no numbers";
    if (hasChannelsByHand(kernel))
      return "the kernel states its copies";
    std::string why = whyNotAsync(load);
    return why.empty() ? whyNotAhead(loop, load, Producer::Copies, addresses) : why;
  }

  /// Leaves the last of the loads that registers are to carry in the loop, as far as these do not
  /// hold them, and says how far ahead the others are.
  void leaveToRegisters() {
    SmallVector<Type> held(loop.getResultTypes());
    llvm::erase_if(plan.carried, [&](Operation *load) {
      const Type type = load->getResult(0).getType();
      held.append({type, type});
      if (registersHold(loop, held, besideTiles::least, target))
        return false;
      held.truncate(held.size() - 2);
      remark(load, "this load stays in its loop, not ahead of it: registers do not hold what two "
                   "iterations load");
      return true;
    });
    if (plan.stages > 2)
      for (Operation *load : plan.carried)
        remark(load, "this load is one iteration ahead, in registers: " + whyNotCopied(load));
  }

  /// What dots do not read themselves is not what stages are for: it stays in the loop where shared
  /// memory has no room for it, and room without it.
  void leaveOut(ArrayRef<Operation *> computedFrom) {
    const auto fits = [&](ArrayRef<FetchedLoad> loads) {
      return resources.depthThatFits(loads, plan.depth, loop) == plan.depth;
    };
    if (fits(plan.loads))
      return;
    SmallVector<FetchedLoad> fewer;
    SmallVector<Operation *> left;
    for (const FetchedLoad &load : plan.loads)
      if (load.uses.empty() && llvm::is_contained(computedFrom, load.load))
        left.push_back(load.load);
      else
        fewer.push_back(load);
    if (!fits(fewer))
      return;
    for (Operation *load : left)
      remark(load, "this load stays in its loop, not ahead of it: there is no room for its buffer");
    plan.loads = std::move(fewer);
  }

  /// Loads of branches take no room that their loop has only without them: there are fewer slots of
  /// each, or they stay.
  void leaveInBranches() {
    const auto isOfBranch = [](const FetchedLoad &load) {
      return load.load->hasAttr(ofBranchAttr);
    };
    const unsigned depth = resources.depthThatFits(plan.loads, plan.depth, loop);
    if (depth == plan.depth || llvm::none_of(plan.loads, isOfBranch))
      return;
    if (depth > 1 && llvm::all_of(plan.loads, isOfBranch)) {
      plan.depth = depth;
      return sayHowDeep(depth, "in shared memory");
    }
    for (const FetchedLoad &load : llvm::make_filter_range(plan.loads, isOfBranch))
      remark(load.load,
             "this load stays in its branch, not ahead of it: there is no room for its buffer");
    llvm::erase_if(plan.loads, isOfBranch);
  }

  /// Where the engine copies what dots read, and a producer tells it to, rows that it cannot copy
  /// are read by threads: a line of a block is in registers in time.
  void leaveRowsToThreads() {
    if (llvm::any_of(plan.loads, [&](const FetchedLoad &load) {
          return tileType(load.tile).getRank() != 1 && !whyByThreads(load).empty();
        }))
      return;
    llvm::erase_if(plan.loads, [&](const FetchedLoad &load) {
      std::string why = whyByThreads(load);
      if (!why.empty())
        remark(load.load, "this load stays in its loop, beside those of the copy engine: " + why);
      return !why.empty();
    });
  }

  /// Has the engine copy tiles that results of dots are combined with, too, where all else goes by
  /// the engine and there is room for as many stages as without them, if only for one slot of such
  /// a tile.
  void addMasks(ArrayRef<Operation *> masks) {
    if (!llvm::all_of(plan.loads,
                      [&](const FetchedLoad &load) { return whyByThreads(load).empty(); }))
      return;
    for (Operation *load : masks) {
      std::string why = whyNotByEngine(load, load->getResult(0));
      if (why.empty())
        why = whyNotAhead(loop, load, Producer::Partition, addresses);
      if (why.empty() && !addMask(cast<tile::LoadBlockOp>(load)))
        why = "there is no room for it";
      if (!why.empty())
        remark(load, "this load stays in its loop, beside those of the copy engine: " + why);
    }
  }

  bool addMask(tile::LoadBlockOp load) {
    plan.loads.push_back({load, load, engineBufferOf(load, load), {}});
    for (const bool hasOneSlot : {false, true}) {
      plan.loads.back().hasOneSlot = hasOneSlot;
      if (resources.depthBesideProducer(plan.loads, plan.stages, loop) == plan.stages)
        return true;
    }
    plan.loads.pop_back();
    return false;
  }

  /// Loads of the loop's body, none of them an operand of a dot itself, in order.
  struct ComputedFrom {
    /// Those that operands of its dots are computed from: converted from another type, decoded,
    /// scaled. Where a branch changes an operand, as a mask does, or the loop carries it, rows
    /// only.
    SmallVector<Operation *> loads;
    SmallVector<Operation *> masks; ///< the tiles that these leave out
  };
  ComputedFrom computedFrom() {
    SmallVector<Value> work, later; // `later`: a branch, or the end of an iteration
    loop.getBody()->walk([&](cta::DotOp dot) { work.append({dot.getA(), dot.getB()}); });
    ComputedFrom found;
    DenseSet<Value> seen;
    for (bool rowsOnly = false; !work.empty() || !later.empty();) {
      if (work.empty()) {
        rowsOnly = true;
        std::swap(work, later);
      }
      const Value value = work.pop_back_val();
      if (!isa<RankedTensorType>(value.getType()) || !seen.insert(value).second)
        continue;
      if (auto argument = dyn_cast<BlockArgument>(value);
          argument && argument.getOwner() == loop.getBody())
        later.push_back(loop.getTiedLoopYieldedValue(argument)->get());
      Operation *op = value.getDefiningOp();
      if (!op || !loop.getBody()->findAncestorOpInBlock(*op))
        continue;
      if (isa<scf::IfOp>(op)) {
        op->walk([&](scf::YieldOp yield) { llvm::append_range(later, yield.getOperands()); });
      } else if (isLoad(op)) {
        if (op->getBlock() == loop.getBody() && !tiles.contains(value))
          (rowsOnly && tileType(value).getRank() > 1 ? found.masks : found.loads).push_back(op);
      } else if (op->hasTrait<OpTrait::Elementwise>() ||
                 isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp, tile::PermuteOp,
                     tile::JoinOp, cta::ConvertLayoutOp, cta::AlongKOp>(op)) {
        llvm::append_range(work, op->getOperands());
      }
    }
    for (SmallVector<Operation *> *loads : {&found.loads, &found.masks})
      llvm::sort(*loads, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    return found;
  }

  std::string whyNotAsync(Operation *load) {
    if (copiedAtOnce(load, contiguity, target) * cta::elementBits(load->getResult(0).getType()) <
        32)
      return "neighbours in memory that one thread copies have less than 4 bytes";
    return {};
  }

  std::string whyNotByEngine(Operation *load, Value tile) {
    return sectile::whyNotByEngine(load, tile, contiguity, addresses, target);
  }

  /// Why the engine does not copy a load that is fetched ahead; empty when it does. Threads may
  /// read tiles that no dot reads from where it writes them. What they read for dots they have to
  /// read as fast as from a buffer that is made for them: `ldmatrix` takes rows of the engine's
  /// swizzle without a conflict. On a chip whose instructions read shared memory themselves, loops
  /// of other dots keep the copies by threads that they were measured with.
  std::string whyByThreads(const FetchedLoad &load) {
    auto found = tiles.find(load.tile);
    ArrayRef<Layout> readers;
    if (found != tiles.end())
      readers = found->second.readers;
    if (!readers.empty() && llvm::any_of(target.mmas, [](const MmaInstruction &each) {
          return each.bHome == OperandHome::Shared;
        }))
      return "threads read it from shared memory";
    std::string why = whyNotByEngine(load.load, load.tile);
    if (!why.empty() || readers.empty())
      return why;
    return costOfReads(engineBufferOf(load.load, load.tile), readers, target) >
                   costOfReads(load.buffer, readers, target)
               ? "threads would read the engine's swizzle with more bank conflicts"
               : "";
  }

  /// Lets the copy engine fill all buffers, if it can: they are waited for together.
  void copyByEngine() {
    if (!target.tensorCopy || plan.loads.empty())
      return;
    for (const FetchedLoad &load : plan.loads)
      if (std::string why = whyByThreads(load); !why.empty()) {
        remark(load.load, "this load is copied by threads, not by the copy engine: " + why);
        // Threads copy a block to a buffer of its own dimensions only.
        llvm::erase_if(plan.loads, [](const FetchedLoad &other) { return other.hasLines(); });
        return;
      }
    plan.byEngine = true;
    for (FetchedLoad &load : plan.loads)
      load.buffer = engineBufferOf(load.load, load.tile);
  }

  /// Has a producer partition make the copies. It runs ahead into the next tile of a loop over
  /// tiles while the main partition stores this one, so the ring lives as long as the loops around
  /// do.
  bool leaveToProducer() {
    if (canHaveProducer()) {
      SmallVector<cta::DotOp, 2> dots = dotsThatOutlive();
      // Warpgroups that copies do not hold together cover each other's waits.
      if (llvm::any_of(dots, [&](cta::DotOp dot) { return isComputed(dot); })) {
        whyNotInFlight = "what it multiplies is computed, beside which a producer "
                         "(warp_specialize) leaves no time to gain";
        dots.clear();
      }
      if (makeProducerRings(dots) || makeProducerRings({}))
        return true;
    }
    llvm::erase_if(plan.loads, [](const FetchedLoad &load) { return load.hasOneSlot; });
    return false;
  }

  /// Whether there is room for them, with these dots in flight while the next iteration begins.
  bool makeProducerRings(ArrayRef<cta::DotOp> inFlight) {
    const Ring *ring = inFlight.empty() ? ringBefore() : nullptr;
    keepSlotsFor(inFlight);
    const unsigned depth = ring ? ring->type().getDepth()
                                : resources.depthBesideProducer(plan.loads, plan.stages, loop);
    // A slot that a dot in flight reads is one that is there ahead. And what a loop around others
    // reads once, and they often, need not be.
    if (depth < (isAround() || !inFlight.empty() ? 1 : 2))
      return false;
    plan.producer = Producer::Partition;
    plan.depth = depth;
    plan.continued = ring;
    plan.hints.push_back(hints::warpSpecialize);
    if (!ring)
      sayHowDeep(depth, "beside what lives as long as its ring");
    return true;
  }

  void keepSlotsFor(ArrayRef<cta::DotOp> inFlight) {
    plan.inFlight.assign(inFlight.begin(), inFlight.end());
    for (FetchedLoad &load : plan.loads)
      load.outlivesIteration = llvm::any_of(load.uses, [&](const BufferUse &use) {
        return llvm::is_contained(inFlight, use.operand->getOwner());
      });
  }

  bool canHaveProducer() {
    if (!hints::asksForProducer(loop) || !plan.byEngine)
      return false;
    SmallVector<Operation *> copied;
    for (const FetchedLoad &load : plan.loads)
      copied.push_back(load.load);
    const unsigned warps = warpsOf(kernel) + producerWarpsOf(target);
    std::string why = warps * target.warpSize > target.maxThreads
                          ? "a block has no room for more of them"
                          : whyNoPartition(kernel, copied);
    if (!why.empty())
      remark(loop, "all warps do the same work: " + why);
    return why.empty();
  }

  /// The ring of a loop before this one, of tiles alike, that this one can go on with. What runs
  /// ahead then fills it for this loop while the one before still reads.
  const Ring *ringBefore() {
    if (plan.loads.size() != 1)
      return nullptr;
    auto found = llvm::find_if(rings, [&](const Ring &ring) {
      return ring.block() == loop->getBlock() && ring.channels.size() == 1 &&
             ring.type().getBuffer() == plan.loads.front().buffer;
    });
    return found == rings.end() ? nullptr : found;
  }

  /// Has a dot stay in flight while the next iteration begins, which takes one slot more. Where
  /// there is no room for it, a step less is fetched ahead.
  bool keepDotInFlight() {
    const SmallVector<cta::DotOp, 2> dots = dotsThatOutlive();
    if (dots.empty())
      return false;
    keepSlotsFor(dots);
    // Rings of copies are empty when the loop is done: what only comes then may lie there.
    const unsigned depth = resources.depthThatFits(plan.loads, plan.stages, loop);
    if (depth + 1 < std::max(plan.stages, 3u) || !keepsBlocks(depth)) {
      keepSlotsFor({});
      return false;
    }
    plan.depth = deepened(depth);
    sayHowDeep(plan.depth, "beside the buffer that a dot in flight reads");
    return true;
  }

  /// A dot in flight takes one slot of a ring. Where no other block shares the multiprocessor in
  /// any case, the copies behind it are further ahead than asked for, for as far as there is room:
  /// with less than three steps in flight the matrix units wait for memory.
  unsigned deepened(unsigned depth) {
    unsigned registers = besideTiles::least;
    for (cta::DotOp dot : plan.inFlight)
      registers += registersOf(dot.getType());
    const auto isAlone = [&](unsigned depth) {
      return resources.blocksWith(plan.loads, depth, registers, loop) == 1;
    };
    while (depth < stagesAlone && isAlone(depth) && isAlone(depth + 1))
      ++depth;
    return depth;
  }
  static constexpr unsigned stagesAlone = 4;

  /// Whether a dot in flight that multiplies what its loop computes leaves blocks beside each other
  /// as they were, and these are two at most: their dots hide more than the next operand does.
  bool keepsBlocks(unsigned depth) {
    if (plan.inFlight.size() != 1 || !isComputed(plan.inFlight.front()))
      return true;
    cta::DotOp dot = plan.inFlight.front();
    const unsigned sums = registersOf(dot.getType()) + besideTiles::least,
                   a = registersOf(dot.getA().getType()),
                   computed = registersOf(computedBefore(dot).getType());
    SmallVector<FetchedLoad> without(plan.loads);
    for (FetchedLoad &load : without)
      load.outlivesIteration = false;
    const unsigned before =
        resources.blocksWith(without, resources.depthThatFits(without, plan.stages, loop),
                             sums + std::max(a, computed), loop);
    if (before > 2)
      whyNotInFlight = "more than two blocks share a multiprocessor";
    else if (resources.blocksWith(plan.loads, depth, sums + a + computed, loop) < before)
      whyNotInFlight = "fewer blocks would share a multiprocessor";
    return whyNotInFlight.empty();
  }

  /// Whether several warpgroups compute, beside their dots, and nothing but the producer's copies
  /// holds them together. Where the program makes channels itself, it states who waits for whom.
  bool canTakeTurns() {
    return plan.producer == Producer::Partition && warpsOf(kernel) > warpsOfWarpgroup &&
           !asynchronousDots(loop, target).empty() && !hasChannelsByHand(kernel);
  }

  /// The dots that need not be complete when the next iteration begins: they add to sums that the
  /// loop carries, from slots and buffers that no iteration fills itself. Or the only one, beside
  /// which the next iteration computes its other operand.
  SmallVector<cta::DotOp, 2> dotsThatOutlive() {
    auto isKept = [&](Value operand) {
      const Value root = originOfOperand(operand).root;
      auto found = tiles.find(root);
      return found != tiles.end() && found->second.byDescriptor &&
             (loop.isDefinedOutsideOfLoop(root) ||
              llvm::is_contained(llvm::map_range(plan.loads, [](auto &l) { return l.tile; }),
                                 root));
    };
    SmallVector<cta::DotOp, 2> dots(loop.getBody()->getOps<cta::DotOp>());
    const bool isOne = dots.size() == 1;
    llvm::erase_if(dots, [&](cta::DotOp dot) {
      const std::optional<CarriedSums> sums = carriedSums(dot);
      if (!isAsynchronous(dot, target) || !sums || !isKept(dot.getB()))
        return true;
      return isOne && isComputed(dot) ? !registersHold(dot, computedBefore(dot), target)
                                      : !sums->rescaling.empty() || !isKept(dot.getA());
    });
    return dots;
  }

  /// Whether an iteration computes a dot's a, which then stays in registers.
  bool isComputed(cta::DotOp dot) {
    return computedBefore(dot) && !tiles.contains(originOfOperand(dot.getA()).root);
  }

  /// A remark where the only dot is complete in its own iteration, though it adds to what the loop
  /// carries. Several run beside each other and the rest of the iteration.
  void sayWhyComplete() {
    const SmallVector<cta::DotOp> dots = asynchronousDots(loop, target);
    if (dots.size() != 1 || loop->hasAttr(onceAttr) || !plan.inFlight.empty())
      return;
    if (beginsAsZeros(dots.front()))
      return;
    const std::optional<CarriedSums> sums = carriedSums(dots.front());
    StringRef why =
        whyNotInFlight.empty() ? "shared memory has no room for one slot more" : whyNotInFlight;
    if (!sums)
      why = "the loop does more with its sums than add to them";
    else if (isComputed(dots.front()) &&
             !registersHold(dots.front(), computedBefore(dots.front()), target))
      why = "registers do not hold what it multiplies twice";
    else if (!sums->rescaling.empty() && !isComputed(dots.front()))
      why = "the loop does more with its sums than add to them";
    else if (dotsThatOutlive().empty())
      why = "not all that it multiplies is copied to shared memory ahead of it";
    remark(dots.front(), "this dot is complete in its own iteration: " + why);
  }

  /// Of a loop that asks for no number of stages, rings are no deeper than there is room for. What
  /// lies beside them is an estimate, so that they stay where they alone have room.
  void lessen() {
    if (loop->hasAttr(cta::stagesAttr) || plan.stages != usualStages ||
        resources.haveRoomAlone(plan.loads, plan.depth))
      return;
    const unsigned depth = resources.depthThatFits(plan.loads, plan.depth, loop);
    plan.depth = depth;
    if (depth > 0)
      sayHowDeep(depth, "in shared memory");
  }

  /// Leaves a loop around others as it is where its rings take room that these need.
  void makeRoomAround() {
    if (isAround() && resources.depthThatFits(plan.loads, plan.depth, kernel) < plan.depth)
      plan.depth = 0;
  }
  bool isAround() {
    return llvm::any_of(loop.getBody()->getOperations(), llvm::IsaPred<scf::ForOp>);
  }

  /// A remark where the loop has fewer stages than it was asked for.
  void sayHowDeep(unsigned stages, const Twine &beside) {
    if (stages < plan.stages)
      remark(loop, "this loop has " + Twine(stages) + (stages == 1 ? " stage" : " stages") +
                       ", not " + Twine(plan.stages) + ": there is no room for more " + beside);
  }

  scf::ForOp loop;
  func::FuncOp kernel;
  const SharedTiles &tiles;
  const ArrayRef<Ring> rings;
  const ContiguityAnalysis &contiguity;
  const Target &target;
  AddressAnalysis addresses;
  LoopResources resources;
  LoopPlan plan;
  StringRef whyNotInFlight; ///< where not for want of room
  /// Loads that operands are computed from and no ring takes, and why.
  llvm::MapVector<Operation *, std::string> staying;
};

} // namespace

LoopPlan planLoop(scf::ForOp loop, unsigned stages, const SharedTiles &tiles, ArrayRef<Ring> rings,
                  const ContiguityAnalysis &contiguity, const Target &target) {
  return Planner(loop, stages, tiles, rings, contiguity, target).run();
}

} // namespace sectile
