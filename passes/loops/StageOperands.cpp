// Brings the operands of dots through shared memory: a tile that a dot needs in another layout than
// its own becomes a buffer, which the dot reads piece by piece; a load of a loop that goes there
// becomes a channel, filled by asynchronous copies or from registers.
#include "ir/MmaElements.h"
#include "ir/cta/TensorMap.h"
#include "ir/layout/Conversion.h"
#include "ir/layout/Costs.h"
#include "ir/layout/MatrixDescriptor.h"
#include "ir/layout/TensorBoxes.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"
#include "passes/DeadCode.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/Clusters.h"
#include "passes/analysis/Registers.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/analysis/VectorLength.h"
#include "passes/analysis/Warps.h"
#include "passes/checks/Check.h"
#include "passes/layouts/ChooseBuffer.h"
#include "passes/loops/EngineStores.h"
#include "passes/loops/FetchAhead.h"
#include "passes/loops/LoopHints.h"
#include "passes/loops/OverlapDots.h"
#include "passes/partitions/PartitionWarps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace sectile {
#define GEN_PASS_DEF_STAGEOPERANDS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

/// 32-bit registers up to which a fragment that a loop does not change is kept in registers.
constexpr unsigned maxInvariantRegisters = 32;

RankedTensorType tileType(Value value) { return cast<RankedTensorType>(value.getType()); }

struct StageOperands : sectile::impl::StageOperandsBase<StageOperands> {
  void runOnOperation() override {
    FailureOr<Target> found = targetOf(getOperation());
    if (failed(found) || failed(checkLayouts(getOperation(), *found)))
      return signalPassFailure();
    target = *found;
    staged.clear();
    rings.clear();
    getOperation().walk([](LoopLikeOpInterface loop) { moveLoopInvariantCode(loop); });
    collect();
    fetchLoops();
    for (auto &[root, tile] : staged)
      allocate(root, tile);
    if (target.tensorCopy)
      EngineStores(getOperation(), target).run();
    leaveCluster();
    eraseDeadCode(getOperation());
  }

  static bool isBetweenWarps(cta::TensorCopyBlockOp copy) {
    auto channel = dyn_cast_if_present<cta::ChannelOp>(originOf(copy.getBuffer()).owner);
    return channel && channel.getBetweenWarps();
  }

  /// Blocks that share nothing need not run side by side. A cluster meets before it shares a ring,
  /// and waits then for all threads that still run: for those, too, that make copies for a loop
  /// behind this one, and wait until it has read some. So where warps of their own make copies,
  /// only rings that these fill are shared.
  void leaveCluster() {
    if (clusterOf(getOperation()) == 1)
      return;
    SmallVector<cta::TensorCopyBlockOp> shared;
    getOperation().walk([&](cta::TensorCopyBlockOp copy) {
      if (copy.getShared())
        shared.push_back(copy);
    });
    bool isParted = false;
    getOperation().walk([&](cta::ChannelOp channel) { isParted |= channel.getBetweenWarps(); });
    if (isParted)
      llvm::erase_if(shared, [](cta::TensorCopyBlockOp copy) {
        if (isBetweenWarps(copy))
          return false;
        copy.setShared(false);
        copy.emitRemark("the programs of a cluster do not share this copy: warps of their own "
                        "make those of another loop");
        return true;
      });
    if (!shared.empty())
      return;
    getOperation()->removeAttr(tile::clusterAttr);
    getOperation().emitRemark("this kernel has no clusters: ")
        << (mayAwaitPrograms(getOperation())
                ? "its programs may wait for each other"
                : "no load of a loop is one that both programs have the copy engine make");
  }

  void collect() {
    getOperation().walk([&](cta::DotOp dot) {
      for (unsigned i = 0; i < 2; ++i) {
        OpOperand &operand = dot->getOpOperand(i);
        if (!isa<RankedTensorType>(operand.get().getType()))
          continue;
        auto [root, order] = originOfOperand(operand.get());
        if (!goesThroughShared(dot, operand, root, order))
          continue;
        staged[root].addUse(dot, i, order, target);
      }
    });
  }

  bool goesThroughShared(cta::DotOp dot, OpOperand &operand, Value root, ArrayRef<int32_t> order) {
    const unsigned number = operand.getOperandNumber();
    const MmaInstruction *instruction = instructionOf(dot, target);
    if (!instruction || instruction->home(number) == OperandHome::Shared)
      return true;
    // The engine may fetch a block's lines, whatever becomes of them in registers.
    if (instruction->home(number) == OperandHome::Either && target.tensorCopy &&
        blockOfLines(root) && loadOf(root))
      return true;
    const Layout &wanted = *cta::layoutOf(operand.get().getType());
    unsigned bits = cta::elementBits(root.getType());
    const SmallVector<int64_t> axes(order.begin(), order.end());
    if (planConversion(cta::layoutOf(root.getType())->permute(axes), wanted, bits,
                       {.banks = banksOf(target)})
            .kind != ConversionPlan::Kind::Scratch)
      return false;
    if (instruction->home(number) == OperandHome::Either)
      return true;
    // What a loop does not change is converted once, before the loop, when it is small.
    auto loop = dot->getParentOfType<LoopLikeOpInterface>();
    bool invariant = loop && loop.isDefinedOutsideOfLoop(operand.get());
    return !invariant || wanted.numRegisters() * bits > maxInvariantRegisters * 32;
  }

  void fetchLoops() {
    const Producer producer = target.asyncCopy ? Producer::Copies : Producer::Registers;
    std::optional<ContiguityAnalysis> contiguity;
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops) {
      if (loop->getParentOfType<cta::PartitionOp>()) // fills its channels itself
        continue;
      auto own = loop->getAttrOfType<IntegerAttr>(cta::stagesAttr);
      unsigned stages = own ? own.getInt() : stagesOf(getOperation());
      if (stages < 2)
        continue;
      AddressAnalysis addresses(getOperation());
      if (!contiguity)
        contiguity.emplace(getOperation());
      SmallVector<FetchedLoad> loads;
      for (auto &[root, tile] : staged) {
        Operation *load = loadOf(root);
        if (!load || load->getBlock() != loop.getBody())
          continue;
        std::string why;
        if (root != load->getResult(0))
          why = whyNotByEngine(loop, load, root, *contiguity);
        else if (producer == Producer::Copies)
          why = whyNotAsync(load, *contiguity);
        if (why.empty() && producer == Producer::Copies)
          why = reasonTransposed(load, tile);
        if (why.empty())
          why = whyInRegisters(load, tile);
        if (why.empty())
          why = whyNotAhead(loop, load, producer, addresses);
        if (why.empty())
          loads.push_back(fetched(load, root, tile, *contiguity, producer));
        else
          load->emitRemark(
              "this load goes through registers to shared memory, not ahead of its loop: ")
              << why;
      }
      const ComputedFrom computed = computedFrom(loop);
      for (Operation *load : computed.loads) {
        // Registers hold what they are computed from already.
        if (producer == Producer::Registers)
          break;
        if (llvm::any_of(loads, [&](const FetchedLoad &other) { return other.load == load; }))
          continue;
        std::string why = whyNotAsync(load, *contiguity);
        if (why.empty())
          why = whyNotAhead(loop, load, producer, addresses);
        if (why.empty())
          loads.push_back(fetched(load, load->getResult(0), tilesOf(load), *contiguity, producer));
        else
          load->emitRemark("this load stays in its loop, not ahead of it: ") << why;
      }
      unsigned depth = producer == Producer::Copies
                           ? stages
                           : depthThatFits(loads, stages > 2 ? 2 : 1, getOperation());
      leaveRowsToThreads(loop, loads, *contiguity);
      if (producer == Producer::Copies && isForOtherWarps(loop))
        addMasks(loop, loads, computed.masks, stages, *contiguity, addresses);
      copyByEngine(loop, loads, *contiguity);
      cta::DotOp early = overlapPair(loop, loads, stages);
      // The ring lives as long as the loops around it do, and in flight a dot reads one buffer
      // more.
      const MadeRing *ring = nullptr;
      unsigned ringDepth = 0;
      if (!early && loadsByOtherWarps(loop, loads)) {
        ring = ringBefore(loop, loads);
        ringDepth = ring ? ring->depth()
                         : depthThatFits(loads, stages + canOverlap(loop), outermostAround(loop),
                                         /*inPartition=*/true);
      }
      // What a loop around others reads once, and they often, need not be there an iteration ahead.
      const bool isAround =
                     llvm::any_of(loop.getBody()->getOperations(), llvm::IsaPred<scf::ForOp>),
                 byOtherWarps = ringDepth >= (isAround ? 1 : 2);
      if (!byOtherWarps)
        llvm::erase_if(loads, [](const FetchedLoad &load) { return load.hasOneSlot; });
      if (isAround && !byOtherWarps && producer == Producer::Copies &&
          depthThatFits(loads, depth, getOperation()) < depth)
        depth = 0;
      // A dot in flight reads one buffer more.
      // Rings of copies are empty when the loop is done: what only comes then may lie there.
      if (byOtherWarps) {
        depth = ringDepth;
        loop->removeAttr(hints::warpSpecialize);
        if (!ring)
          sayHowDeep(loop, stages, depth - canOverlap(loop),
                     "beside what lives as long as its ring");
      } else if (const unsigned fits =
                     !early && canOverlap(loop) ? depthThatFits(loads, stages + 1, loop) : 0;
                 fits >= std::max(stages, 3u)) {
        // Where there is no room for it, a step less is fetched ahead.
        depth = fits - 1;
        for (FetchedLoad &load : loads)
          load.outlivesIteration = true;
        sayHowDeep(loop, stages, depth, "beside the buffer that a dot in flight reads");
      }
      if (depth == 0)
        for (const FetchedLoad &load : std::exchange(loads, {}))
          load.load->emitRemark("this load goes to shared memory in its own iteration: there is no "
                                "room to keep its buffer");
      for (const FetchedLoad &load : loads)
        staged.erase(load.tile);
      if (!loads.empty()) {
        Block *around = loop->getBlock();
        FetchedLoop made = fetchAhead(loop, loads, byOtherWarps ? Producer::OtherWarps : producer,
                                      depth, early, ring ? &ring->ring : nullptr);
        if (made.first)
          readAlike(made.first, early);
        if (ring)
          rings.erase(ring);
        if (byOtherWarps)
          for (Ring &each : made.rings)
            rings.push_back({around, std::move(each)});
        findRoots();
        contiguity.reset(); // the loop's results are other values
      } else if (own) {
        loop.emitRemark("a hint has no effect: stages: no load of this loop is fetched ahead");
      }
    }
  }

  /// A ring that warps of their own fill, of a loop that is done where others of its block begin.
  struct MadeRing {
    Block *block;
    Ring ring;

    unsigned depth() const {
      return cast<cta::ChannelType>(ring.channels.front().getType()).getDepth();
    }
  };
  SmallVector<MadeRing> rings;

  /// The ring of a loop before this one, of tiles alike, that this one can go on with. What runs
  /// ahead then fills it for this loop while the one before still reads.
  const MadeRing *ringBefore(scf::ForOp loop, ArrayRef<FetchedLoad> loads) const {
    if (loads.size() != 1 || canOverlap(loop))
      return nullptr;
    auto found = llvm::find_if(rings, [&](const MadeRing &made) {
      return made.block == loop->getBlock() && made.ring.channels.size() == 1 &&
             cast<cta::ChannelType>(made.ring.channels.front().getType()).getBuffer() ==
                 loads.front().buffer;
    });
    return found == rings.end() ? nullptr : found;
  }

  /// A remark where a loop has fewer stages than it was asked for.
  static void sayHowDeep(scf::ForOp loop, unsigned wanted, unsigned stages, StringRef beside) {
    if (stages < wanted)
      loop.emitRemark("this loop has ")
          << stages << (stages == 1 ? " stage" : " stages") << ", not " << wanted
          << ": there is no room for more " << beside;
  }

  /// Where the engine copies what dots read, and other warps tell it to, rows that it cannot copy
  /// are read by threads: a line of a block is in registers in time.
  void leaveRowsToThreads(scf::ForOp loop, SmallVector<FetchedLoad> &loads,
                          const ContiguityAnalysis &contiguity) {
    if (!isForOtherWarps(loop))
      return;
    SmallVector<std::pair<Operation *, std::string>> left;
    for (const FetchedLoad &load : loads)
      if (std::string why = whyNotEngine(loop, load, contiguity); !why.empty()) {
        if (tileType(load.tile).getRank() != 1)
          return;
        left.push_back({load.load, std::move(why)});
      }
    for (auto &[load, why] : left)
      load->emitRemark("this load stays in its loop, beside those of the copy engine: ") << why;
    llvm::erase_if(loads, [&](const FetchedLoad &load) {
      return llvm::is_contained(llvm::make_first_range(left), load.load);
    });
  }

  /// Whether a loop asks for warps of their own that have the engine make its copies.
  static bool isForOtherWarps(scf::ForOp loop) {
    auto hint = loop->getAttrOfType<BoolAttr>(hints::warpSpecialize);
    return hint && hint.getValue();
  }

  /// Has the engine copy tiles that results of dots are combined with, too, where all else goes by
  /// the engine and there is room for as many stages as without them, if only for one slot of such
  /// a tile.
  void addMasks(scf::ForOp loop, SmallVector<FetchedLoad> &loads, ArrayRef<Operation *> masks,
                unsigned stages, const ContiguityAnalysis &contiguity, AddressAnalysis &addresses) {
    if (!llvm::all_of(loads, [&](const FetchedLoad &load) {
          return whyNotEngine(loop, load, contiguity).empty();
        }))
      return;
    for (Operation *load : masks) {
      std::string why = whyNotByEngine(loop, load, load->getResult(0), contiguity);
      if (why.empty())
        why = whyNotAhead(loop, load, Producer::OtherWarps, addresses);
      if (why.empty()) {
        auto block = cast<tile::LoadBlockOp>(load);
        loads.push_back(
            {load, block, *engineBuffer(block.getType(), engineTileOf(block, block).second), {}});
        bool fits = false;
        for (const bool hasOneSlot : {false, true}) {
          loads.back().hasOneSlot = hasOneSlot;
          fits =
              depthThatFits(loads, stages, outermostAround(loop), /*inPartition=*/true) == stages;
          if (fits)
            break;
        }
        if (fits)
          continue;
        loads.pop_back();
        why = "there is no room for it";
      }
      load->emitRemark("this load stays in its loop, beside those of the copy engine: ") << why;
    }
  }

  /// Why the engine does not copy a load that is fetched ahead; empty when it does. Threads may
  /// read tiles that no dot reads from where it writes them. What they read for dots they have to
  /// read as fast as from a buffer that is made for them: `ldmatrix` takes rows of the engine's
  /// swizzle without a conflict. On a chip whose instructions read shared memory themselves, loops
  /// of other dots keep the copies by threads that they were measured with.
  std::string whyNotEngine(scf::ForOp loop, const FetchedLoad &load,
                           const ContiguityAnalysis &contiguity) {
    auto found = staged.find(load.tile);
    ArrayRef<Layout> readers;
    if (found != staged.end())
      readers = found->second.readers;
    if (!readers.empty() && llvm::any_of(target.mmas, [](const MmaInstruction &each) {
          return each.bHome == OperandHome::Shared;
        }))
      return "threads read it from shared memory";
    std::string why = whyNotByEngine(loop, load.load, load.tile, contiguity);
    if (!why.empty() || readers.empty())
      return why;
    const auto [type, dense] = engineTileOf(cast<tile::LoadBlockOp>(load.load), load.tile);
    return costOfReads(*engineBuffer(type, dense), readers, target) >
                   costOfReads(load.buffer, readers, target)
               ? "threads would read the engine's swizzle with more bank conflicts"
               : "";
  }

  /// Lets the copy engine fill the buffers of a loop's loads, if it can fill all of them: they are
  /// waited for together.
  void copyByEngine(scf::ForOp loop, SmallVector<FetchedLoad> &loads,
                    const ContiguityAnalysis &contiguity) {
    if (!target.tensorCopy || loads.empty())
      return;
    for (const FetchedLoad &load : loads) {
      std::string why = whyNotEngine(loop, load, contiguity);
      if (!why.empty()) {
        load.load->emitRemark("this load is copied by threads, not by the copy engine: ") << why;
        // Threads copy a block to a buffer of its own dimensions only.
        llvm::erase_if(loads, [](const FetchedLoad &other) { return other.hasLines(); });
        return;
      }
    }
    OpBuilder builder(loop);
    for (FetchedLoad &load : loads) {
      auto block = cast<tile::LoadBlockOp>(load.load);
      const auto [type, dense] = engineTileOf(block, load.tile);
      load.buffer = *engineBuffer(type, dense);
      load.tensor = makeTensorBlock(builder, *blockOf(block), contiguity);
      load.isShared = isSharedInCluster(load);
    }
  }

  /// Whether warps of their own have the engine make a loop's copies, as the loop asks for. They
  /// run ahead into the next tile of a loop over tiles while the others store this one.
  bool loadsByOtherWarps(scf::ForOp loop, ArrayRef<FetchedLoad> loads) {
    if (!isForOtherWarps(loop) || loads.empty() || !loads.front().byEngine())
      return false;
    const bool rescales = llvm::any_of(loop.getBody()->getOps<cta::DotOp>(), [](cta::DotOp dot) {
      const std::optional<CarriedSums> sums = carriedSums(dot);
      return sums && !sums->rescaling.empty();
    });
    if (rescales)
      return false;
    SmallVector<Operation *> copied;
    for (const FetchedLoad &load : loads)
      copied.push_back(load.load);
    const unsigned warps = warpsOf(getOperation()) + producerWarpsOf(target);
    std::string why = warps * target.warpSize > target.maxThreads
                          ? "a block has no room for more of them"
                          : whyNoPartition(getOperation(), copied);
    if (!why.empty()) {
      loop.emitRemark("all warps do the same work: ") << why;
      return false;
    }
    return true;
  }

  /// Whether the blocks of a cluster copy the same, in the same iteration, and can do half of it
  /// each.
  bool isSharedInCluster(const FetchedLoad &load) {
    const unsigned cluster = clusterOf(getOperation());
    if (cluster == 1 || !target.multicast || load.hasLines() || mayAwaitPrograms(getOperation()))
      return false;
    const TensorBoxes boxes =
        *planTensorBoxes(load.buffer.getLayout().getLayout(), cta::elementBits(load.buffer));
    if (!boxes.half())
      return false;
    ClusterValues values(cluster);
    auto block = cast<tile::LoadBlockOp>(load.load);
    return values.runAlike(block) && values.areAlike(block.getOffsets()) &&
           values.areAlike(load.tensor->coordinates);
  }

  /// What the engine copies of a load, and along which axis that has neighbours.
  static std::pair<RankedTensorType, unsigned> engineTileOf(tile::LoadBlockOp load, Value tile) {
    const unsigned dense = *denseDimension(madeView(load.getView()));
    return {tileType(tile), tile == load.getResult() ? dense : 1};
  }

  /// The load that a tile is, or whose lines it has; null for other tiles.
  static Operation *loadOf(Value tile) {
    Operation *op = tile.getDefiningOp();
    if (op && isLoad(op))
      return op;
    Value block = blockOfLines(tile);
    return block ? block.getDefiningOp<tile::LoadBlockOp>() : nullptr;
  }

  /// Why the copy engine cannot copy a loop's load; empty when it can.
  std::string whyNotByEngine(scf::ForOp loop, Operation *op, Value tile,
                             const ContiguityAnalysis &contiguity) {
    if (!target.tensorCopy)
      return "there is no copy engine, and threads copy a block in its own dimensions only";
    auto load = dyn_cast<tile::LoadBlockOp>(op);
    if (!load)
      return "it is by pointers, not from a view";
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
    if (mayBeWrittenBefore(loop, load))
      return "the kernel may write it before";
    std::string why = whyNoTensorBlock(*blockOf(load), loop, contiguity);
    if (!why.empty())
      return why;
    const auto [type, dense] = engineTileOf(load, tile);
    if (std::string none = whyNoBoxes(type, dense); !none.empty())
      return none;
    const TensorBoxes boxes = *planTensorBoxes(engineBuffer(type, dense)->getLayout().getLayout(),
                                               cta::elementBits(type));
    return tile == load.getResult() || boxes.hasWholeColumns() ? "" : "it has too many lines";
  }

  /// Whether the kernel may write what a loop's load reads, in the outermost loop around it or
  /// before: the engine reads memory through a proxy of its own, which does not see that.
  bool mayBeWrittenBefore(scf::ForOp loop, Operation *load) {
    AddressAnalysis addresses(getOperation());
    Operation *outermost = outermostAround(loop);
    const GlobalAccess read = *addresses.accessOf(load);
    WalkResult result = getOperation().walk([&](Operation *op) {
      std::optional<GlobalAccess> access = addresses.accessOf(op);
      Operation *top = outermost->getBlock()->findAncestorOpInBlock(*op);
      return access && access->writes && top && !outermost->isBeforeInBlock(top) &&
                     addresses.mayEverOverlap(*access, read)
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    return result.wasInterrupted();
  }

  /// The dot of a loop that an iteration can do for the next one, so that it runs beside the rest
  /// of the iteration, and the loop's other dot beside what comes then; null when there is none.
  /// Says so to the loads.
  cta::DotOp overlapPair(scf::ForOp loop, MutableArrayRef<FetchedLoad> loads, unsigned stages) {
    std::optional<DotPair> pair = dotPairOf(loop, target);
    // The uses of a channel are counted on from one run of its loop to the next: all alike.
    if (!pair || !target.asyncCopy || loop->getParentOfType<LoopLikeOpInterface>())
      return nullptr;
    auto [early, late] = *pair;
    auto isFetchedFor = [&](const FetchedLoad &load, cta::DotOp dot) {
      return load.uses.size() == 1 && load.uses.front().operand->getOwner() == dot;
    };
    SmallVector<FetchedLoad> planned(loads);
    unsigned known = 0; // operands of the early dot
    for (FetchedLoad &load : planned) {
      load.isEarly = isFetchedFor(load, early);
      load.outlivesIteration = isFetchedFor(load, late);
      known += load.isEarly;
      if (load.isEarly == load.outlivesIteration ||
          (load.isEarly && followsCarried(loop, load.load)))
        return nullptr;
    }
    for (Value operand : {early.getA(), early.getB()})
      known += loop.isDefinedOutsideOfLoop(operand);
    const bool isLateFetched =
        llvm::any_of(planned, [](const FetchedLoad &load) { return load.outlivesIteration; });
    if (known != 2 || !isLateFetched || planned.size() < 2)
      return nullptr;
    if (loop->removeAttr(hints::oneAccumulator) ||
        canShareMultiprocessor(*pair, loads, stages, loop))
      return nullptr;
    if (!hasRegisters(*pair, planned.front().byEngine())) {
      early.emitRemark(
          "this dot runs beside no other work: registers do not hold two of its results");
      return nullptr;
    }
    if (bytesWith(planned, stages) + scratchIn(loop, stagedConversions()) > target.maxSharedBytes) {
      late.emitRemark("this dot runs beside no other work: there is no room for one buffer more");
      return nullptr;
    }
    llvm::copy(planned, loads.begin());
    return early;
  }

  /// Whether two blocks share a multiprocessor when no dots overlap. Then one multiplies while the
  /// other does not, and what overlapping takes would leave room for one. Estimated: few kernels
  /// take much less than 32 registers beside their tiles.
  bool canShareMultiprocessor(DotPair pair, ArrayRef<FetchedLoad> loads, unsigned stages,
                              Operation *loop) {
    const unsigned registers =
        warpsOf(loop) * target.warpSize *
        (registersOf(pair.early.getType()) + registersOf(pair.late.getType()) + besideTiles::least);
    return 2 * registers <= target.registersPerUnit &&
           2 * (bytesWith(loads, stages) + scratchIn(loop, stagedConversions())) <=
               target.maxSharedBytes;
  }

  /// Whether a thread's registers hold what two dots have at once when they overlap: both results
  /// of the early one, what is made of one, and the late one's sums.
  bool hasRegisters(DotPair pair, bool isByEngine) {
    const Type early = pair.early.getType();
    return registersHold(pair.early,
                         {early, early, pair.late.getA().getType(), pair.late.getType()},
                         isByEngine ? besideTiles::rows : besideTiles::copying, target);
  }

  /// Has a dot read from shared memory what another one does, as far as that is still a tile.
  void readAlike(cta::DotOp dot, cta::DotOp other) {
    for (auto &[root, tile] : staged)
      for (unsigned i = 0; i < 2; ++i)
        if (auto use = llvm::find_if(
                tile.uses,
                [&](const BufferUse &b) { return b.operand == &other->getOpOperand(i); });
            use != tile.uses.end()) {
          const SmallVector<int32_t, 2> order = use->order;
          tile.uses.push_back({&dot->getOpOperand(i), order});
        }
  }

  /// Whether a dot of the loop may be in flight while the next iteration begins.
  bool canOverlap(scf::ForOp loop) const {
    auto isStaged = [&](Value operand) {
      auto found = staged.find(originOfOperand(operand).root);
      return found != staged.end() && found->second.byDescriptor;
    };
    return llvm::any_of(loop.getBody()->getOps<cta::DotOp>(), [&](cta::DotOp dot) {
      const std::optional<CarriedSums> sums = carriedSums(dot);
      return isAsynchronous(dot, target) && sums && sums->rescaling.empty() &&
             isStaged(dot.getA()) && isStaged(dot.getB());
    });
  }

  /// How many buffers of each load, up to `most`, shared memory has room for, whatever lives at the
  /// same time.
  unsigned depthThatFits(ArrayRef<FetchedLoad> loads, unsigned most, Operation *beside,
                         bool inPartition = false) {
    const int64_t others =
        inPartition ? EngineStores(getOperation(), target).bytesBeside(beside, stagedConversions())
                    : scratchIn(beside, stagedConversions());
    while (most > 0 && bytesWith(loads, most) + others > target.maxSharedBytes)
      --most;
    return most;
  }
  /// Of shared memory, with so many buffers of each load: a buffer that is filled an iteration
  /// ahead shares its place with nothing.
  int64_t bytesWith(ArrayRef<FetchedLoad> loads, unsigned depth) {
    int64_t bytes = 0;
    for (const FetchedLoad &load : loads)
      bytes += load.slots(depth) * llvm::alignTo(load.buffer.getBytes(), 16) -
               (staged.contains(load.tile) ? bytesOf(load.tile) : 0);
    for (auto &[root, tile] : staged)
      if (!goesOnWith(root, loads))
        bytes += bytesOf(root);
    getOperation().walk([&](cta::ChannelOp channel) { bytes += channel.getType().getBytes(); });
    return bytes;
  }
  /// Whether the only load of a later loop goes on with the ring of one of these loads.
  bool goesOnWith(Value root, ArrayRef<FetchedLoad> loads) const {
    auto later = dyn_cast_if_present<tile::LoadBlockOp>(root.getDefiningOp());
    auto loop = later ? dyn_cast<scf::ForOp>(later->getParentOp()) : scf::ForOp();
    if (!loop || !isForOtherWarps(loop) || llvm::range_size(loop.getOps<tile::LoadBlockOp>()) != 1)
      return false;
    return llvm::any_of(loads, [&](const FetchedLoad &load) {
      auto first = dyn_cast<tile::LoadBlockOp>(load.load);
      auto before = dyn_cast<scf::ForOp>(load.load->getParentOp());
      return isForOtherWarps(before) && first && first.getView() == later.getView() &&
             first.getType() == later.getType() && before->getBlock() == loop->getBlock() &&
             before->isBeforeInBlock(loop);
    });
  }
  /// Conversions of operands that dots will read from shared memory.
  DenseSet<Operation *> stagedConversions() const {
    DenseSet<Operation *> found;
    for (const auto &[root, tile] : staged)
      for (const BufferUse &use : tile.uses)
        for (Operation *op = use.operand->get().getDefiningOp(); op && op->hasOneUse();
             op = op->getOperand(0).getDefiningOp()) {
          if (!isa<cta::ConvertLayoutOp, tile::PermuteOp>(op))
            break;
          found.insert(op);
        }
    return found;
  }
  static int64_t bytesOf(Value tile) {
    return tileType(tile).getNumElements() * cta::elementBytes(tile.getType());
  }

  FetchedLoad fetched(Operation *load, Value root, const SharedTile &tile,
                      const ContiguityAnalysis &contiguity, Producer producer) {
    if (producer == Producer::Registers)
      return {load, root, chooseBuffer(tileType(root), tile, target), tile.uses};
    unsigned vector = copiedAtOnce(load, contiguity);
    return {load, root, chooseBuffer(tileType(root), tile, target, vector), tile.uses, vector};
  }

  /// A loop that was given more to carry is another operation, and its results are other values.
  void findRoots() {
    llvm::MapVector<Value, SharedTile> found;
    for (auto &[root, tile] : staged)
      found[originOfOperand(tile.uses.front().operand->get()).root] = std::move(tile);
    staged = std::move(found);
  }

  /// Loads of a loop's body, none of them an operand of a dot itself, in order.
  struct ComputedFrom {
    /// Those that operands of its dots are computed from: converted from another type, decoded,
    /// scaled. Where a branch changes an operand, as a mask does, or the loop carries it, rows
    /// only.
    SmallVector<Operation *> loads;
    SmallVector<Operation *> masks; ///< the tiles that these leave out
  };
  ComputedFrom computedFrom(scf::ForOp loop) {
    llvm::SetVector<Operation *> seen;
    SmallVector<Operation *> work, branches;
    SmallVector<Value> carried;
    ComputedFrom found;
    auto follow = [&](Value value) {
      if (!isa<RankedTensorType>(value.getType()))
        return;
      if (auto argument = dyn_cast<BlockArgument>(value);
          argument && argument.getOwner() == loop.getBody())
        carried.push_back(loop.getTiedLoopYieldedValue(argument)->get());
      Operation *op = value.getDefiningOp();
      if (op && loop.getBody()->findAncestorOpInBlock(*op) && seen.insert(op))
        work.push_back(op);
    };
    auto followAll = [&](bool rowsOnly) {
      while (!work.empty()) {
        Operation *op = work.pop_back_val();
        if (isa<scf::IfOp>(op)) {
          branches.push_back(op);
        } else if (isLoad(op)) {
          if (op->getBlock() == loop.getBody() && !staged.contains(op->getResult(0)))
            (rowsOnly && tileType(op->getResult(0)).getRank() > 1 ? found.masks : found.loads)
                .push_back(op);
        } else if (op->hasTrait<OpTrait::Elementwise>() ||
                   isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp, tile::PermuteOp,
                       tile::JoinOp, cta::ConvertLayoutOp>(op)) {
          llvm::for_each(op->getOperands(), follow);
        }
      }
    };
    loop.getBody()->walk([&](cta::DotOp dot) {
      for (unsigned i = 0; i < 2; ++i)
        follow(dot->getOperand(i));
    });
    followAll(/*rowsOnly=*/false);
    while (!branches.empty() || !carried.empty()) {
      if (!branches.empty())
        branches.pop_back_val()->walk(
            [&](scf::YieldOp yield) { llvm::for_each(yield.getOperands(), follow); });
      else
        follow(carried.pop_back_val());
      followAll(/*rowsOnly=*/true);
    }
    for (SmallVector<Operation *> *loads : {&found.loads, &found.masks})
      llvm::sort(*loads, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    return found;
  }

  /// How the users of a load read its tile.
  static SharedTile tilesOf(Operation *load) {
    SharedTile tile;
    for (Operation *user : load->getUsers()) {
      auto convert = dyn_cast<cta::ConvertLayoutOp>(user);
      Value read = convert ? Value(convert.getResult()) : load->getResult(0);
      tile.readers.push_back(*cta::layoutOf(read.getType()));
    }
    return tile;
  }

  /// Elements that one thread can copy at once.
  unsigned copiedAtOnce(Operation *load, const ContiguityAnalysis &contiguity) {
    return vectorLength(contiguityOf(contiguity, load),
                        *cta::layoutOf(load->getResult(0).getType()), target);
  }

  std::string whyNotAsync(Operation *load, const ContiguityAnalysis &contiguity) {
    if (copiedAtOnce(load, contiguity) * cta::elementBits(load->getResult(0).getType()) < 32)
      return "neighbours in memory that one thread copies have less than 4 bytes";
    return {};
  }

  /// Why the operand's contiguous dimension in memory is not the K that the instruction needs.
  static std::string reasonTransposed(Operation *load, const SharedTile &tile) {
    if (tile.along && *tile.along != fastestAxis(*cta::layoutOf(load->getResult(0).getType())))
      return "the dot's instruction reads neighbours along the inner dimension, and those in "
             "memory lie across it";
    return {};
  }

  /// Why users of a load that dots read from shared memory need it elsewhere as well.
  static std::string whyInRegisters(Operation *load, const SharedTile &tile) {
    Operation *user = tile.otherUserOf(load->getResult(0));
    return user ? ("it is also used by " + user->getName().getStringRef()).str() : "";
  }

  // As late as possible, so that loads before it can be in flight together.
  void allocate(Value root, const SharedTile &tile) {
    Block *block = root.getParentBlock();
    Operation *first = nullptr;
    for (const BufferUse &use : tile.uses) {
      Operation *user = block->findAncestorOpInBlock(*use.operand->getOwner());
      if (!first || user->isBeforeInBlock(first))
        first = user;
    }
    OpBuilder builder(first);
    auto alloc = cta::AllocOp::create(
        builder, root.getLoc(), chooseBuffer(tileType(root), tile, target), root, IntegerAttr());
    for (const BufferUse &use : tile.uses)
      readBuffer(builder, use, alloc);
  }

  Target target;
  llvm::MapVector<Value, SharedTile> staged;
};

} // namespace
