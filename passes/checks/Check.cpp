// Checks of a whole kernel, made where a pass or code generation starts on it.
#include "passes/checks/Check.h"
#include "ir/MmaElements.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Kernel.h"
#include "passes/analysis/Blocks.h"
#include "passes/analysis/LayoutRules.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/analysis/Warps.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace sectile {

namespace {

constexpr int64_t mostElements = int64_t{1} << 24; // the language's own limit
// Elements of one tile for each thread. Chips have 255 registers for all of a thread's values; far
// beyond that, compiling would take hours.
constexpr int64_t mostRegisters = 2048;

bool isElement(Type type) {
  if (auto integer = dyn_cast<IntegerType>(type))
    return integer.isSignless() && llvm::is_contained({1, 8, 16, 32, 64}, integer.getWidth());
  if (auto ptr = dyn_cast<tile::PtrType>(type))
    return isElement(ptr.getElement());
  return isa<Float16Type, BFloat16Type, Float32Type, Float64Type, Float8E4M3FNType, Float8E5M2Type,
             Float8E4M3FNUZType, Float8E5M2FNUZType, Float8E4M3B11FNUZType>(type);
}

/// Why values cannot be of a type, or nothing.
std::string refusalOf(Type type) {
  type = cta::tileOf(type);
  if (auto tile = dyn_cast<RankedTensorType>(type)) {
    if (!isElement(tile.getElementType()))
      return "has elements of a type that is not computed with";
    if (!tile.hasStaticShape())
      return "has a shape that is not known";
    if (tile.getRank() == 0)
      return "has no axes: a single number is a scalar";
    int64_t elements = 1;
    for (int64_t extent : tile.getShape()) {
      if (extent < 1)
        return "is empty";
      if (extent > mostElements || (elements *= extent) > mostElements)
        return "is too large for any chip";
    }
    return "";
  }
  if (auto slot = dyn_cast<tile::SlotType>(type))
    return refusalOf(slot.getTile());
  if (auto channel = dyn_cast<tile::ChannelType>(type)) {
    for (RankedTensorType tile : channel.getTiles())
      if (std::string refusal = refusalOf(tile); !refusal.empty())
        return refusal;
    return "";
  }
  if (auto ring = dyn_cast<cta::ChannelType>(type))
    type = ring.getBuffer();
  if (auto buffer = dyn_cast<cta::BufferType>(type); buffer && !buffer.isShared())
    return "is in tensor memory, and no code is made for that yet";
  if (auto view = dyn_cast<tile::ViewType>(type))
    type = view.getElement();
  bool known = isElement(type) || isa<IndexType, tile::MbarriersType, cta::BufferType,
                                      cta::MbarriersType, cta::TensorMapType, FunctionType>(type);
  return known ? "" : "is of a type that kernels do not have";
}

/// An integer attribute within bounds, where there is one.
LogicalResult checkNumber(Operation *op, Attribute attr, StringRef name, int64_t least,
                          int64_t most) {
  if (!attr)
    return success();
  auto number = dyn_cast<IntegerAttr>(attr);
  if (number && number.getType().isSignlessInteger() &&
      number.getValue().getSignificantBits() <= 64 && number.getInt() >= least &&
      number.getInt() <= most)
    return success();
  return op->emitError() << name << " is a number from " << least << " to " << most;
}

LogicalResult checkAttributes(func::FuncOp kernel) {
  if (failed(checkNumber(kernel, kernel->getAttr(cta::warpsAttr), cta::warpsAttr, 1, 64)) ||
      failed(checkNumber(kernel, kernel->getAttr(cta::stagesAttr), cta::stagesAttr, 1, 64)) ||
      failed(checkNumber(kernel, kernel->getAttr(cta::maxRegistersAttr), cta::maxRegistersAttr, 1,
                         512)) ||
      failed(checkNumber(kernel, kernel->getAttr(cta::minProgramsAttr), cta::minProgramsAttr, 1,
                         64)) ||
      failed(checkNumber(kernel, kernel->getAttr(cta::sharedBytesAttr), cta::sharedBytesAttr, 0,
                         INT32_MAX)) ||
      failed(checkNumber(kernel, kernel->getAttr(tile::clusterAttr), tile::clusterAttr, 1, 2)))
    return failure();
  if (!llvm::isPowerOf2_32(warpsOf(kernel)))
    return kernel.emitError() << "the number of warps is a power of two, not " << warpsOf(kernel);
  if (failed(checkPartitions(kernel)))
    return failure();
  for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
    for (StringRef fact : {StringRef(tile::divisibleAttr), StringRef(tile::belowAttr)})
      if (failed(checkNumber(kernel, kernel.getArgAttr(i, fact), fact, 1, INT64_MAX)))
        return failure();
  return checkAll(kernel, [](scf::ForOp loop) {
    return checkNumber(loop, loop->getAttr(cta::stagesAttr), cta::stagesAttr, 1, 64);
  });
}

LogicalResult checkThreads(func::FuncOp kernel, const Target &target) {
  unsigned threads = warpsOf(kernel) * target.warpSize;
  if (threads > target.maxThreads)
    return kernel.emitError() << warpsOf(kernel) << " warps are " << threads << " threads; "
                              << target.name << " has at most " << target.maxThreads
                              << " in a block";
  return success();
}

/// Calls `check` for each type of a partition's values, once, with an operation it is found at.
LogicalResult checkTypes(func::FuncOp kernel,
                         function_ref<LogicalResult(Operation *, Type)> check) {
  // A partition may have another number of warps, so that another layout is right there.
  llvm::SmallDenseSet<std::pair<Operation *, Type>, 16> seen;
  auto all = [&](Operation *op, TypeRange types) {
    return llvm::all_of(types, [&](Type type) {
      return !seen.insert({partitionOf(op), type}).second || succeeded(check(op, type));
    });
  };
  WalkResult result = kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    bool fine = all(op, op->getResultTypes());
    for (Region &region : op->getRegions())
      for (Block &block : region)
        fine = fine && all(op, block.getArgumentTypes());
    return fine ? WalkResult::advance() : WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult checkDot(cta::DotOp dot, const Target &target) {
  Type a = cta::elementOf(dot.getA().getType()), b = cta::elementOf(dot.getB().getType()),
       sum = cta::elementOf(dot.getType());
  bool fits = a.isInteger(8) ? sum.isInteger(32)
              : a.isF64()    ? sum.isF64()
              : a.isF16()    ? sum.isF32() || sum.isF16()
                             : isa<FloatType>(a) && sum.isF32();
  if (!fits || cta::elementBits(a) != cta::elementBits(b) || isa<FloatType>(a) != isa<FloatType>(b))
    return dot.emitOpError() << "of " << a << " and " << b << " cannot sum in " << sum;
  if (dot.getInstruction() && !instructionOf(dot, target))
    return dot.emitOpError() << target.name << " has no such instruction";
  return success();
}

LogicalResult checkDots(func::FuncOp kernel, const Target &target) {
  return checkAll(kernel, [&](cta::DotOp dot) { return checkDot(dot, target); });
}

/// What not every target has.
LogicalResult checkInstruction(Operation *op, const Target &target) {
  bool hasIt = true;
  if (isa<cta::AsyncCopyOp>(op))
    hasIt = target.asyncCopy;
  else if (isa<cta::TensorCopyBlockOp, cta::TensorCopyOp, cta::TensorStoreBlockOp,
               cta::TensorStoreOp, cta::TensorStoreWaitOp, cta::MbarriersOp, cta::MbarrierWaitOp,
               cta::MbarrierArriveOp, cta::MbarrierSignalOp, cta::ClusterBarrierOp,
               cta::ClusterAcquireOp>(op))
    hasIt = target.tensorCopy;
  else if (isa<cta::TurnWaitOp, cta::TurnPassOp, cta::ProxyFenceOp>(op))
    hasIt = target.vendor == Vendor::Nvidia;
  constexpr unsigned warpsInTurn = 8; // of two warpgroups
  if (isa<cta::TurnWaitOp, cta::TurnPassOp>(op) && warpsOf(op) < warpsInTurn)
    return op->emitOpError("is for the turns of two warpgroups");
  if (hasIt)
    return success();
  return op->emitOpError() << target.name << " has no such instruction";
}

/// Buffers and channels are no values that a loop or a branch could choose.
LogicalResult checkBuffers(Operation *op) {
  if (isa<cta::ChannelOp, cta::AllocOp>(op))
    return success();
  for (Value operand : op->getOperands()) {
    Type type = operand.getType();
    if ((isa<cta::ChannelType>(type) && !operand.getDefiningOp<cta::ChannelOp>()) ||
        (isa<cta::BufferType>(type) && !originOf(operand).owner))
      return op->emitOpError() << "uses a buffer that is not made in this kernel";
  }
  return success();
}

/// What is accessed of a view is computed from where the view was made.
LogicalResult checkView(Operation *op) {
  for (Value operand : op->getOperands())
    if (isa<tile::ViewType>(operand.getType()) &&
        isa<tile::TileDialect, cta::CtaDialect>(op->getDialect()) && !madeView(operand))
      return op->emitError("the view of this block is chosen by a branch or carried by a loop that "
                           "changes it; choose its address, extents and strides there and make the "
                           "view afterwards");
  return success();
}

/// An access of several registers at once takes whole groups of them.
LogicalResult checkVector(Operation *op) {
  auto vector = op->getAttrOfType<IntegerAttr>("vector");
  if (!vector || op->getNumOperands() == 0)
    return success();
  unsigned registers = 1;
  if (auto copy = dyn_cast<cta::AsyncCopyBlockOp>(op))
    registers = copy.getLayout().getLayout().numRegisters();
  for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes()))
    if (const Layout *layout = cta::layoutOf(type))
      registers = layout->numRegisters();
  if (vector.getInt() < 1 || registers % vector.getInt() != 0)
    return op->emitOpError() << "takes " << vector.getInt() << " at once of " << registers
                             << " registers";
  return success();
}

} // namespace

LogicalResult checkTiles(func::FuncOp kernel) {
  if (failed(checkAttributes(kernel)))
    return failure();
  LogicalResult types = checkTypes(kernel, [](Operation *op, Type type) -> LogicalResult {
    std::string refusal = refusalOf(type);
    if (refusal.empty())
      return success();
    return op->emitError() << type << " " << refusal;
  });
  const LogicalResult views = checkAll(kernel, [](Operation *op) { return checkView(op); });
  return failure(failed(types) || failed(views));
}

/// What each thread holds of a tile where that is too much, else 0: threads share out powers of
/// two, and the odd factors of extents each of them holds whole.
static int64_t heldOfOdd(ArrayRef<int64_t> shape, int64_t threads) {
  int64_t each = 1, shared = 1;
  for (int64_t extent : shape) {
    int64_t power = extent & -extent;
    each *= extent / power;
    shared *= power;
  }
  int64_t held = each * llvm::divideCeil(shared, threads);
  // Twice what an even share would be, or a few, is nothing to speak of.
  int64_t fine = std::max<int64_t>(256, 2 * llvm::divideCeil(each * shared, threads));
  return held <= std::min(fine, mostRegisters) || each == 1 ? 0 : held;
}

/// The nearest extents that may be in place of one, wherever the shape has it.
static std::string nearestTo(int64_t extent, ArrayRef<int64_t> shape, int64_t threads) {
  auto works = [&](int64_t other) {
    SmallVector<int64_t> changed(shape);
    llvm::replace(changed, extent, other);
    return heldOfOdd(changed, threads) == 0 &&
           ShapedType::getNumElements(changed) <= mostRegisters * threads;
  };
  std::string found;
  auto look = [&](int64_t step) {
    for (int64_t other = extent + step; other > 0 && other <= 2 * extent; other += step)
      if (works(other)) {
        found += (found.empty() ? "" : " and ") + std::to_string(other);
        return;
      }
  };
  look(-1);
  look(1);
  return found;
}

/// Says what to write instead where odd factors of extents are too much.
static std::string oddExtents(RankedTensorType tile, int64_t threads) {
  ArrayRef<int64_t> shape = tile.getShape();
  int64_t held = heldOfOdd(shape, threads);
  if (held == 0 || tile.getNumElements() > mostRegisters * threads)
    return {};
  std::string instead;
  for (auto [axis, extent] : llvm::enumerate(shape)) {
    bool isOdd = extent != (extent & -extent);
    if (!isOdd || llvm::is_contained(shape.take_front(axis), extent))
      continue;
    if (std::string nearest = nearestTo(extent, shape, threads); !nearest.empty())
      instead += (instead.empty() ? " instead of " : ", or instead of ") + std::to_string(extent) +
                 " the nearest that work are " + nearest;
  }
  if (instead.empty())
    instead = " use extents with larger powers of two in them";
  return "a tile of " + tile::shapeText(shape) + " is " + std::to_string(held) +
         " elements for each thread, as threads share out powers of two only:" + instead;
}

LogicalResult checkBare(func::FuncOp kernel) {
  if (failed(checkTiles(kernel)))
    return failure();
  return checkTypes(kernel, [](Operation *op, Type type) -> LogicalResult {
    auto tile = dyn_cast<RankedTensorType>(type);
    if (tile && tile.getEncoding())
      return op->emitOpError("has a layout before layouts are assigned");
    return success();
  });
}

LogicalResult checkPlain(func::FuncOp kernel, const Target &target) {
  auto isTile = [](Type type) { return isa<TensorType>(type); };
  if (llvm::any_of(kernel.getArgumentTypes(), isTile))
    return kernel.emitError("a kernel takes no tiles");
  if (llvm::any_of(kernel.getResultTypes(), isTile))
    return kernel.emitError("a kernel gives no tiles");
  if (failed(checkBare(kernel)) || failed(checkThreads(kernel, target)))
    return failure();
  const LogicalResult early = checkAll(kernel, [](Operation *op) -> LogicalResult {
    if (!isa<tile::DotOp, tile::DotScaledOp, cta::AsyncCopyBlockOp>(op))
      return success();
    return op->emitOpError("is left where layouts are assigned");
  });
  if (failed(early) || failed(checkDots(kernel, target)))
    return failure();
  return checkExtents(kernel, warpsOf(kernel), target.warpSize);
}

LogicalResult checkPartitions(func::FuncOp kernel) {
  return checkAll(kernel, [](Operation *op) -> LogicalResult {
    const std::optional<unsigned> warps =
        isa<tile::PartitionOp, cta::PartitionOp>(op) ? warpsOfPartition(op) : std::nullopt;
    if (!warps || (llvm::isPowerOf2_32(*warps) && *warps <= 64))
      return success();
    return op->emitError("the number of warps of a partition that computes is a power of two up "
                         "to 64, not ")
           << *warps;
  });
}

LogicalResult checkExtents(func::FuncOp function, unsigned warps, unsigned warpSize) {
  return checkTypes(function, [&](Operation *op, Type type) -> LogicalResult {
    const int64_t threads = int64_t(warpsOfPartition(op).value_or(warps)) * warpSize;
    auto tile = dyn_cast<RankedTensorType>(type);
    if (std::string odd = tile ? oddExtents(tile, threads) : ""; !odd.empty())
      return op->emitError() << odd;
    if (tile && tile.getNumElements() > mostRegisters * threads)
      return op->emitError() << "a tile of " << tile::shapeText(tile.getShape()) << " is "
                             << llvm::divideCeil(tile.getNumElements(), threads)
                             << " elements for each of " << threads << " threads; at most "
                             << mostRegisters
                             << " can be compiled: use smaller tiles, or more warps";
    return success();
  });
}

LogicalResult checkLayouts(func::FuncOp kernel, const Target &target) {
  if (failed(checkTiles(kernel)) || failed(checkThreads(kernel, target)))
    return failure();
  // A reduction, a conversion or an access over several blocks would need parts that other blocks
  // hold.
  auto isOfOneBlock = [](Operation *op, const Layout &layout) -> LogicalResult {
    if (layout.numBlocks() == 1)
      return success();
    return op->emitOpError() << "has a layout over " << layout.numBlocks()
                             << " blocks; a tile belongs to one";
  };
  auto isOfThreads = [&](Operation *op, const Layout &layout) -> LogicalResult {
    if (failed(isOfOneBlock(op, layout)))
      return failure();
    if (layout.numLanes() != target.warpSize || layout.numWarps() != warpsOf(op))
      return op->emitOpError() << "has a layout of " << layout.numLanes() << " lanes and "
                               << layout.numWarps() << " warps, but " << target.name << " has "
                               << target.warpSize << " and the "
                               << (warpsOfPartition(op) ? "partition " : "kernel ") << warpsOf(op);
    // Layouts may repeat elements in several registers.
    if (layout.numRegisters() > 2 * mostRegisters)
      return op->emitOpError() << "has a layout of " << layout.numRegisters() << " registers";
    return success();
  };
  LogicalResult types = checkTypes(kernel, [&](Operation *op, Type type) -> LogicalResult {
    if (auto channel = dyn_cast<cta::ChannelType>(type))
      type = channel.getBuffer();
    if (auto buffer = dyn_cast<cta::BufferType>(type))
      return isOfOneBlock(op, buffer.getLayout().getLayout());
    if (!isa<RankedTensorType>(type))
      return success();
    const Layout *layout = cta::layoutOf(type);
    if (!layout)
      return op->emitOpError() << "has a tile without a layout: " << type;
    return isOfThreads(op, *layout);
  });
  if (failed(types))
    return failure();
  const LogicalResult ops = checkAll(kernel, [&](Operation *op) {
    auto copy = dyn_cast<cta::AsyncCopyBlockOp>(op);
    return failure(failed(checkInstruction(op, target)) || failed(checkBuffers(op)) ||
                   failed(checkVector(op)) ||
                   (copy && failed(isOfThreads(op, copy.getLayout().getLayout()))));
  });
  return failure(failed(ops) || failed(checkDots(kernel, target)));
}

} // namespace sectile
