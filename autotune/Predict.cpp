// Counting operations of placed IR, each as often as its loops run.
#include "autotune/Predict.h"
#include "ir/MmaElements.h"
#include "ir/cta/Cta.h"
#include "ir/tile/Tile.h"
#include "passes/Kernel.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/analysis/Warps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace sectile::autotune {
namespace {

constexpr double unknownTrips = 8; // of a loop that depends on memory
constexpr double sectorBytes = 32, wavefrontBytes = 128;

/// Integers that follow from a launch's arguments and its grid.
class Evaluator {
public:
  Evaluator(const detail::BoundLaunch &launch) : launch(launch) {}

  std::optional<int64_t> operator()(Value value) {
    auto [known, isNew] = values.try_emplace(value);
    if (!isNew)
      return known->second;
    const std::optional<int64_t> result = compute(value);
    values[value] = result;
    return result;
  }

private:
  std::optional<int64_t> argument(BlockArgument value) const {
    const unsigned index = value.getArgNumber();
    if (!isa<func::FuncOp>(value.getOwner()->getParentOp()) || index >= launch.words.size() ||
        !value.getType().isInteger())
      return std::nullopt;
    return llvm::SignExtend64(launch.words[index], value.getType().getIntOrFloatBitWidth());
  }

  unsigned extent(unsigned axis) const {
    return axis == 0 ? launch.grid.x : axis == 1 ? launch.grid.y : launch.grid.z;
  }

  std::optional<int64_t> compute(Value value) {
    if (auto blockArgument = dyn_cast<BlockArgument>(value))
      return argument(blockArgument);
    Operation *op = value.getDefiningOp();
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto integer = dyn_cast<IntegerAttr>(constant.getValue());
      return integer ? std::optional(integer.getInt()) : std::nullopt;
    }
    if (auto id = dyn_cast<tile::ProgramIdOp>(op))
      return extent(id.getAxis()) / 2;
    if (auto count = dyn_cast<tile::NumProgramsOp>(op))
      return extent(count.getAxis());
    SmallVector<int64_t, 3> x;
    for (Value operand : op->getOperands()) {
      const std::optional<int64_t> number = (*this)(operand);
      if (!number)
        return std::nullopt;
      x.push_back(*number);
    }
    auto divides = [&] { return x[1] > 0; }; // others are no extents
    return llvm::TypeSwitch<Operation *, std::optional<int64_t>>(op)
        .Case([&](arith::AddIOp) { return x[0] + x[1]; })
        .Case([&](arith::SubIOp) { return x[0] - x[1]; })
        .Case([&](arith::MulIOp) { return x[0] * x[1]; })
        .Case([&](arith::DivSIOp) { return divides() ? std::optional(x[0] / x[1]) : std::nullopt; })
        .Case([&](arith::RemSIOp) { return divides() ? std::optional(x[0] % x[1]) : std::nullopt; })
        .Case([&](arith::MinSIOp) { return std::min(x[0], x[1]); })
        .Case([&](arith::MaxSIOp) { return std::max(x[0], x[1]); })
        .Case<arith::ExtSIOp, arith::TruncIOp, arith::IndexCastOp>([&](auto) { return x[0]; })
        .Default([](Operation *) { return std::nullopt; });
  }

  const detail::BoundLaunch &launch;
  DenseMap<Value, std::optional<int64_t>> values;
};

double elementsOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? double(tensor.getNumElements()) : 1;
}
double registersOf(Type type) {
  const Layout *layout = cta::layoutOf(type);
  return layout ? layout->numRegisters() : 1;
}

class Prediction {
public:
  Prediction(ModuleOp module, const detail::BoundLaunch &launch, const Target &target)
      : evaluate(launch), target(target) {
    func::FuncOp kernel = *module.getOps<func::FuncOp>().begin();
    warps = warpsOf(kernel);
    kernel.walk([&](Operation *op) {
      if (Value into = filledBy(op)) {
        unsigned &deepest = copiesWithin[originOf(into).owner];
        deepest = std::max(deepest, loopsAround(op));
      }
    });
    visit(kernel.getBody(), 1);
    blocks = double(launch.grid.x) * launch.grid.y * launch.grid.z;
  }

  vgpu::Counters counters() const {
    vgpu::Counters result;
    auto all = [&](double ofBlock) {
      return static_cast<uint64_t>(std::llround(ofBlock * blocks));
    };
    result.blocks = all(1);
    for (auto [to, from] : {std::pair{&result.globalLoad, &load},
                            {&result.globalStore, &store},
                            {&result.globalAtomic, &atomic},
                            {&result.asyncCopy, &copy}}) {
      to->requests = all(from->requests);
      to->bytes = all(from->bytes);
      to->sectors = to->idealSectors = all(from->bytes / sectorBytes);
    }
    result.asyncCopy.wavefronts = all(copy.bytes / wavefrontBytes);
    result.sharedLoad.wavefronts = all(sharedRead / wavefrontBytes);
    result.sharedStore.wavefronts = all(sharedWritten / wavefrontBytes);
    result.barriers = all(barriers * warps);
    result.instructions = all(instructions * warps * target.warpSize);
    for (const auto &[name, count] : matrix) {
      result.mmaKinds.push_back({name, all(count)});
      result.mma += all(count);
    }
    return result;
  }

private:
  struct Access {
    double requests = 0, bytes = 0; ///< of one block
  };

  void visit(Region &region, double times) {
    for (Block &block : region)
      for (Operation &op : block) {
        if (auto loop = dyn_cast<scf::ForOp>(op))
          visit(loop.getRegion(), times * trips(loop));
        else if (isa<scf::WhileOp>(op))
          for (Region &inner : op.getRegions())
            visit(inner, times * unknownTrips);
        else if (auto partition = dyn_cast<cta::PartitionOp>(op))
          visitPartition(partition, times);
        else if (isa<scf::IfOp>(op))
          for (Region &inner : op.getRegions())
            visit(inner, times);
        else
          count(&op, times);
      }
  }

  /// What its warps do counts as if the kernel's own did it.
  void visitPartition(cta::PartitionOp partition, double times) {
    const double own = std::exchange(warps, warpsOf(partition)),
                 outerBarriers = std::exchange(barriers, 0),
                 outerInstructions = std::exchange(instructions, 0);
    visit(partition.getBody(), times);
    barriers = outerBarriers + barriers * warps / own;
    instructions = outerInstructions + instructions * warps / own;
    warps = own;
  }

  double trips(scf::ForOp loop) {
    const auto from = evaluate(loop.getLowerBound()), to = evaluate(loop.getUpperBound()),
               step = evaluate(loop.getStep());
    if (!from || !to || !step || *step <= 0)
      return unknownTrips;
    return double(std::max<int64_t>(0, (*to - *from + *step - 1) / *step));
  }

  void touch(Access &access, double times, double elements, double bytes, unsigned vector) {
    access.requests += times * elements / (vector * target.warpSize);
    access.bytes += times * elements * bytes;
  }

  void count(Operation *op, double times) {
    auto vectorOf = [](auto access) { return access.getVector().value_or(1); };
    if (auto dot = dyn_cast<cta::DotOp>(op))
      return product(dot, times);
    if (auto dot = dyn_cast<cta::DotStartOp>(op))
      return product(dot, times);
    auto loads = [&](auto loadOp) {
      const Type type = loadOp.getType();
      touch(load, times, elementsOf(type), cta::elementBytes(type), vectorOf(loadOp));
    };
    auto stores = [&](auto storeOp) {
      const Type type = storeOp.getValue().getType();
      touch(store, times, elementsOf(type), cta::elementBytes(type), vectorOf(storeOp));
    };
    if (auto loadOp = dyn_cast<tile::LoadOp>(op)) {
      loads(loadOp);
    } else if (auto loadOp = dyn_cast<cta::BufferLoadOp>(op)) {
      loads(loadOp);
    } else if (auto storeOp = dyn_cast<tile::StoreOp>(op)) {
      stores(storeOp);
    } else if (auto storeOp = dyn_cast<cta::BufferStoreOp>(op)) {
      stores(storeOp);
    } else if (auto storeOp = dyn_cast<cta::TensorStoreOp>(op)) {
      store.requests += times;
      store.bytes += times * double(storeOp.getBuffer().getType().getBytes());
    } else if (auto rmw = dyn_cast<tile::AtomicRMWOp>(op)) {
      const Type type = rmw.getValue().getType();
      touch(atomic, times, elementsOf(type), cta::elementBytes(type), 1);
    } else if (auto copyOp = dyn_cast<cta::AsyncCopyOp>(op)) {
      return copies(op, copyOp.getBuffer(), times, vectorOf(copyOp));
    } else if (auto copyOp = dyn_cast<cta::TensorCopyOp>(op)) {
      return copies(op, copyOp.getBuffer(), times * insideOf(copyOp), 0);
    } else if (auto local = dyn_cast<cta::LocalLoadOp>(op)) {
      sharedRead += times * elementsOf(local.getType()) * cta::elementBytes(local.getType());
    } else if (auto local = dyn_cast<cta::LocalStoreOp>(op)) {
      const Type type = local.getValue().getType();
      sharedWritten += times * elementsOf(type) * cta::elementBytes(type);
    } else if (isa<cta::AsyncWaitOp, cta::MbarrierWaitOp, cta::BarrierOp>(op)) {
      barriers += times;
    } else if (const int64_t scratch = sharedBytes(op);
               scratch && !isa<cta::AllocOp, cta::ChannelOp, cta::MbarriersOp>(op)) {
      sharedRead += times * double(scratch);
      sharedWritten += times * double(scratch);
      barriers += times;
    }
    // Indices, addresses and masks are mostly hoisted, shared or folded.
    for (Type type : op->getResultTypes())
      if (isa<FloatType>(getElementTypeOrSelf(type)) && !op->hasTrait<OpTrait::ConstantLike>())
        instructions += times * registersOf(type);
  }

  /// Of a loop's copies by the engine the part that is not beyond the tensor: what an iteration
  /// does for the one before it, the first does for none.
  double insideOf(cta::TensorCopyOp copyOp) {
    auto loop = copyOp->getParentOfType<scf::ForOp>();
    if (!loop)
      return 1;
    for (Value coordinate : copyOp.getCoordinates()) {
      auto chosen = coordinate.getDefiningOp<arith::SelectOp>();
      auto isLater = chosen ? chosen.getCondition().getDefiningOp<arith::CmpIOp>() : nullptr;
      if (isLater && isLater.getPredicate() == arith::CmpIPredicate::sgt &&
          isLater.getLhs() == loop.getInductionVar() && isLater.getRhs() == loop.getLowerBound())
        return 1 - 1 / std::max(trips(loop), 1.0);
    }
    return 1;
  }

  /// The buffer that a copy fills; null for other operations.
  static Value filledBy(Operation *op) {
    if (auto copyOp = dyn_cast<cta::AsyncCopyOp>(op))
      return copyOp.getBuffer();
    auto copyOp = dyn_cast<cta::TensorCopyOp>(op);
    return copyOp ? copyOp.getBuffer() : Value();
  }
  static unsigned loopsAround(Operation *op) {
    unsigned loops = 0;
    while ((op = op->getParentOp()))
      loops += isa<LoopLikeOpInterface>(op);
    return loops;
  }

  /// By threads, each a vector at once, or by the engine, where there is no vector. Copies ahead of
  /// a loop are those that its last iterations leave out.
  void copies(Operation *op, Value into, double times, unsigned vector) {
    if (loopsAround(op) < copiesWithin.lookup(originOf(into).owner))
      return;
    auto buffer = cast<cta::BufferType>(into.getType());
    copy.requests +=
        times * (vector ? double(buffer.getNumElements()) / (vector * target.warpSize) : 1);
    copy.bytes += times * double(buffer.getBytes());
  }

  template <class Dot> void product(Dot dot, double times) {
    const auto sums = cast<RankedTensorType>(cta::tileOf(dot.getType()));
    const int64_t rank = sums.getRank();
    const double depth = double(cta::shapeOf(dot.getA().getType()).back());
    // Warps side by side read the same rows, those one above the other the same columns.
    const Layout &layout = *cta::layoutOf(sums);
    double across = 1, down = 1, same = 1; // the same: what warps do twice
    for (unsigned bit = 0; bit < layout.bits(In::Warp); ++bit) {
      across *= layout.basis(In::Warp, bit, unsigned(rank - 1)) ? 2 : 1;
      down *= layout.basis(In::Warp, bit, unsigned(rank - 2)) ? 2 : 1;
      same *= layout.packed(In::Warp)[bit] ? 1 : 2;
    }
    const double work = times * same * double(sums.getNumElements()) * depth;
    auto read = [&](Value operand, double readers) {
      auto buffer = dyn_cast<cta::BufferType>(operand.getType());
      if (!buffer)
        return;
      const double bytes = times * same * double(buffer.getBytes()) * readers;
      sharedRead += bytes;
      instructions += bytes / (16 * warps * target.warpSize);
    };
    if (const MmaInstruction *by = instructionOf(dot, target)) {
      const double each = double(by->m) * by->n * by->k;
      matrix["predicted.mma.m" + std::to_string(by->m) + "n" + std::to_string(by->n) + "k" +
             std::to_string(by->k) + "." + elementName(by->a)] += work / each;
      instructions += work / each / warps;
      if (by->promotionInterval) // each sum is added once for each group
        instructions += times * same * double(sums.getNumElements()) *
                        std::ceil(depth / by->promotionInterval) / (warps * target.warpSize);
      read(dot.getA(), across);
      read(dot.getB(), down);
    } else {
      instructions += work / (warps * target.warpSize);
      // Every lane reads its own rows and columns of what it adds up, a word at a time at worst.
      read(dot.getA(), across * 4);
      read(dot.getB(), down * 4);
    }
  }

  static std::string elementName(MmaElement element) {
    switch (element) {
    case MmaElement::BF16:
      return "bf16";
    case MmaElement::TF32:
      return "tf32";
    case MmaElement::F32:
      return "f32";
    case MmaElement::F64:
      return "f64";
    case MmaElement::I8:
      return "s8";
    case MmaElement::F16:
      return "f16";
    default:
      return "e4m3";
    }
  }

  Evaluator evaluate;
  const Target &target;
  double warps = 1, blocks = 1;
  DenseMap<Operation *, unsigned> copiesWithin; ///< so many loops at most, by what they fill
  Access load, store, atomic, copy;
  double sharedRead = 0, sharedWritten = 0; ///< bytes
  double barriers = 0;                      ///< that the block meets at
  double instructions = 0;                  ///< of one thread
  std::map<std::string, double> matrix;
};

} // namespace

vgpu::Counters predictCounters(ModuleOp module, const detail::BoundLaunch &launch,
                               const Target &target) {
  return Prediction(module, launch, target).counters();
}

} // namespace sectile::autotune
