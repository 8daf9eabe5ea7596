// Costs of operations by layout: memory by the sectors and instructions it takes, reductions by
// their plan, matrix products by their fragments, the rest by registers.
#include "passes/layouts/LayoutCosts.h"
#include "ir/MmaElements.h"
#include "ir/layout/Builders.h"
#include "ir/layout/Conversion.h"
#include "ir/layout/Costs.h"
#include "ir/layout/Gf2.h"
#include "ir/layout/MatrixDescriptor.h"
#include "ir/layout/Reduction.h"
#include "ir/layout/Scan.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "passes/Kernel.h"
#include "passes/analysis/LayoutRules.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/analysis/VectorLength.h"
#include "passes/analysis/Warps.h"
#include "passes/layouts/ChooseBuffer.h"
#include "passes/layouts/DotOperands.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace sectile {

static constexpr unsigned sectorBytes = 32, cacheLineBytes = 128;

// The largest power of two that divides an extent.
static unsigned powerOfTwoIn(int64_t extent) { return extent & -extent; }

// Instructions per element of an operation without a rule of its own.
static double costPerElement(Operation *op) {
  if (isa<arith::DivFOp, math::SqrtOp, math::TanhOp, math::PowFOp, math::ErfOp>(op))
    return 10;
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::RemFOp>(op))
    return 20;
  if (isa_and_nonnull<math::MathDialect>(op->getDialect()))
    return 4;
  if (isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::PermuteOp, tile::JoinOp, tile::SplitOp>(op))
    return 0;
  // Each element alone to a place in shared memory, or from there.
  if (isa<tile::GatherOp, tile::HistogramOp>(op))
    return 2 * cycles::wavefront;
  if (auto reshape = dyn_cast<tile::ReshapeOp>(op))
    return staysInThreads(reshape) ? 0 : 2 * cycles::wavefront;
  return 1;
}

LayoutCosts::LayoutCosts(const Target &target, func::FuncOp kernel)
    : target(target), analysis(kernel), usual(kernel, Certainty::mostly) {
  for (auto loop : allIn<LoopLikeOpInterface>(kernel)) {
    int64_t operands = 0;
    DenseSet<Value> seen;
    for (Operation &op : loop->getRegion(0).front())
      if (auto dot = dyn_cast<cta::DotOp>(op); dot && instructionOf(dot, target))
        for (unsigned number : {0, 1}) {
          Value tile = dot->getOperand(number);
          while (auto permute = tile.getDefiningOp<tile::PermuteOp>())
            tile = permute.getSource();
          Operation *load = tile.getDefiningOp();
          if (instructionOf(dot, target)->home(number) == OperandHome::Registers || !load ||
              !isLoad(load) || !seen.insert(tile).second)
            continue;
          auto type = cast<RankedTensorType>(tile.getType());
          operands += type.getNumElements() * cta::elementBytes(type) *
                      (load->getParentOp() == loop ? stagesOf(loop) : 1);
        }
    // Where not even they fit, there are fewer slots.
    if (operands > 0 && operands < int64_t(target.maxSharedBytes))
      besideOperands[loop] = target.maxSharedBytes - operands;
  }
}

double LayoutCosts::of(Operation *op, const Layout &layout) const {
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case<tile::LoadOp, tile::LoadBlockOp, tile::StoreOp, tile::StoreBlockOp>(
          [&](auto access) { return ofMemory(access, layout); })
      .Case<tile::AtomicRMWOp, tile::AtomicCasOp, tile::AtomicBlockOp>(
          [&](auto atomic) { return ofAtomic(atomic, layout); })
      .Case([&](tile::ReduceOp reduce) { return ofReduce(reduce, layout); })
      .Case([&](tile::ScanOp scan) { return ofScan(scan, layout); })
      .Case([&](cta::DotOp dot) { return ofDot(dot, layout); })
      .Case([&](cta::AllocOp alloc) { return ofBuffer(alloc.getType(), layout, true); })
      .Case([&](cta::LocalStoreOp store) {
        return ofBuffer(store.getBuffer().getType(), layout, true);
      })
      .Case([&](cta::AlongKOp op) { return ofAlongK(op, layout); })
      .Case([&](cta::LocalLoadOp load) {
        return ofBuffer(load.getBuffer().getType(), layout, false);
      })
      .Default([&](Operation *other) { return layout.numRegisters() * costPerElement(other); });
}

// Neighbours of a run that may lie in one sector.
static int64_t numbersOfSector(const Run &run, unsigned elementBytes) {
  return std::max<int64_t>(1, sectorBytes /
                                  (elementBytes * int64_t(llvm::bit_ceil<uint64_t>(run.gap))));
}

// The number of 32-byte sectors one instruction touches: lanes count once where they are neighbours
// in memory, or read the same.
static double sectorsPerInstruction(const Layout &layout, const Contiguity &known,
                                    unsigned elementBytes, unsigned vector) {
  uint32_t together = 0;
  for (unsigned dim = 0; dim < layout.rank(); ++dim) {
    int64_t run = std::min<int64_t>(known[dim].contiguity & -known[dim].contiguity,
                                    numbersOfSector(known[dim], elementBytes));
    run = std::max(run, known[dim].constancy & -known[dim].constancy);
    together |= uint32_t(std::min(run, layout.core(dim)) - 1) << layout.shift(dim);
  }
  Gf2Basis sectors;
  for (uint32_t vectorOfLane : layout.packed(In::Lane))
    sectors.insert(vectorOfLane & ~together);
  for (unsigned bit = 0; 2u << bit <= vector; ++bit)
    sectors.insert(layout.packed(In::Register)[bit] & ~together);
  return 1u << sectors.rank();
}

double LayoutCosts::ofMemory(Operation *access, const Layout &layout, unsigned widest) const {
  const unsigned vector =
      std::min(vectorLength(contiguityOf(analysis, access), layout, target), widest);
  const AccessContiguity mostly = contiguityOf(usual, access);
  double sectors = sectorsPerInstruction(layout, mostly.pointers, mostly.elementBytes, vector);
  return layout.numRegisters() / vector * (cycles::access + sectors * cycles::sector);
}

// Elements that one atomic operation of a thread works on.
static unsigned widestAtomic(Operation *op) {
  auto isPairwise = [](auto update) {
    return update.getKind() == tile::AtomicKind::FAdd && cta::elementBits(update.getType()) == 16;
  };
  bool pairs = llvm::TypeSwitch<Operation *, bool>(op)
                   .Case<tile::AtomicRMWOp, tile::AtomicBlockOp>(isPairwise)
                   .Default([](Operation *) { return false; });
  return pairs ? 2 : 1;
}

// Where several warps hold the same element, the result takes a round through shared memory.
double LayoutCosts::ofAtomic(Operation *op, const Layout &layout) const {
  double cost = ofMemory(op, layout, widestAtomic(op));
  if (layout.freeBits(In::Warp))
    cost += layout.numRegisters() * 2 * cycles::wavefront;
  return cost;
}

double LayoutCosts::ofConversion(const Layout &from, const Layout &to, unsigned bits,
                                 unsigned spareBytes) const {
  return estimateConversion(from, to, bits,
                            {.banks = banksOf(target), .spareScratchBytes = spareBytes});
}

unsigned LayoutCosts::spareBytesFor(Value value) const {
  auto loop = besideOperands.find(value.getParentBlock()->getParentOp());
  return loop == besideOperands.end() ? mostScratch() : std::min(mostScratch(), loop->second);
}

double LayoutCosts::ofReduce(tile::ReduceOp reduce, const Layout &layout) const {
  ReductionPlan plan = planReduction(layout, reduce.getAxis());
  double cost = 0;
  for (Value source : reduce.getSources()) {
    unsigned bits = cta::elementBits(source.getType()), results = plan.result.numRegisters();
    cost += layout.numRegisters() + plan.laneSteps.size() * results * (cycles::shuffle + 1);
    if (plan.numPartials > 1)
      cost += ofConversion(plan.partial, plan.gathered, bits, mostScratch()) +
              plan.numPartials * results;
  }
  return cost;
}

// Matrix products that a dot of split operands takes.
static unsigned productsOf(cta::DotOp dot, const MmaInstruction &instruction) {
  if (instruction.a == MmaElement::F32 || !cta::elementOf(dot.getA().getType()).isF32())
    return 1;
  switch (dot.getPrecision()) {
  case tile::Precision::TF32x3:
  case tile::Precision::BF16x3:
    return 3;
  case tile::Precision::BF16x6:
    return 6;
  default:
    return 1;
  }
}

double LayoutCosts::ofScan(tile::ScanOp scan, const Layout &layout) const {
  std::optional<ScanPlan> plan = planScan(layout, scan.getAxis());
  if (!plan)
    return 0; // a layout that it never gets
  unsigned runs = plan->runs.size() * layout.numRepeats();
  double cost = 0;
  for (const ScanPlan::Level &level : plan->levels) {
    cost += 2 * runs; // carries
    if (level.in == In::Lane)
      cost += runs * cycles::shuffle;
    else if (level.in == In::Warp)
      cost += cycles::meeting +
              double(plan->totals.size() << level.bits.size()) * (cycles::wavefront + 2);
  }
  return scan.getNumOperands() * (2 * plan->layout.numRegisters() + cost);
}

double LayoutCosts::ofDot(cta::DotOp dot, const Layout &layout) const {
  double depth = cta::shapeOf(dot.getA().getType()).back();
  if (const MmaInstruction *instruction = instructionOf(dot, target)) {
    double instructions = layout.numRegisters() / double(instruction->sumFragment.numRegisters()) *
                          depth / instruction->k;
    return instructions * productsOf(dot, *instruction) * cycles::matrixInstruction;
  }
  // Fused multiply-adds: each step along the depth reads the rows and the columns of this thread,
  // of every matrix that it works on.
  double reads = 0, matrices = 1;
  auto perThread = [&](unsigned dim) {
    Gf2Basis distinct;
    for (uint32_t vector : layout.packed(In::Register))
      distinct.insert(layout.along(vector, dim));
    return double(1u << distinct.rank()) * layout.repeats(dim);
  };
  for (unsigned dim = 0; dim + 2 < layout.rank(); ++dim)
    matrices *= perThread(dim);
  for (unsigned dim : {layout.rank() - 2, layout.rank() - 1})
    reads += matrices * perThread(dim) * cycles::wavefront;
  return depth * (layout.numRegisters() + reads);
}

bool LayoutCosts::canGoAhead(OpOperand &operand) const {
  auto dot = dyn_cast<cta::DotOp>(operand.getOwner());
  if (!dot || !dot.getInstruction() || operand.getOperandNumber() > 1)
    return false;
  Value tile = operand.get();
  while (auto permute = tile.getDefiningOp<tile::PermuteOp>())
    tile = permute.getSource();
  Operation *load = tile.getDefiningOp();
  return load && isLoad(load) && isa<scf::ForOp>(load->getParentOp());
}

bool LayoutCosts::isReadAlongK(OpOperand &operand) const {
  Operation *load = operand.get().getDefiningOp();
  return isa<cta::AlongKOp>(operand.getOwner()) && load && isLoad(load) &&
         isa<scf::ForOp>(load->getParentOp());
}

bool LayoutCosts::mayStay(OpOperand &operand) const {
  auto dot = dyn_cast<cta::DotOp>(operand.getOwner());
  if (!dot || operand.getOperandNumber() > 1 || dot->getParentOfType<LoopLikeOpInterface>())
    return false;
  const MmaInstruction *instruction = instructionOf(dot, target);
  return instruction && instruction->home(operand.getOperandNumber()) == OperandHome::Either;
}

double LayoutCosts::ofBuffer(cta::BufferType buffer, const Layout &layout, bool isStore) const {
  const Layout &shared = buffer.getLayout().getLayout();
  unsigned bits = cta::elementBits(buffer.getElement());
  return layout.numRepeats() *
         planSharedAccess(shared, layout, bits, isStore, banksOf(target)).cost();
}

// The slot that the engine fills, or the dot's buffer, by the axis of its lines.
static Layout bufferAlong(cta::AlongKOp op, unsigned axis) {
  const RankedTensorType type = op.getType();
  return hasPanels(type, axis)
             ? sharedForDescriptors(type.getShape(), axis, cta::elementBits(type), cacheLineBytes)
             : sharedPlain(type.getShape(), {axis, 1 - axis});
}

double LayoutCosts::ofAlongK(cta::AlongKOp op, const Layout &layout) const {
  const unsigned along = op.getAxis(), bits = cta::elementBits(op.getType());
  double cost = 0;
  for (const unsigned axis : {1 - along, along})
    if (axis != along || !op.getStays())
      cost += planSharedAccess(bufferAlong(op, axis), layout, bits, /*isStore=*/axis == along,
                               banksOf(target))
                  .cost();
  return layout.numRepeats() * cost;
}

SmallVector<Layout, 4> LayoutCosts::proposals(Operation *op) const {
  SmallVector<Layout, 4> result;
  auto ofAccess = [&](Operation *access, Type tile) {
    const unsigned widest = target.maxVectorBits / 8 / cta::elementBytes(tile);
    proposeForMemory(access, cast<RankedTensorType>(tile), std::max(1u, widest), result);
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case<tile::LoadOp, tile::LoadBlockOp>([&](auto load) { ofAccess(load, load.getType()); })
      .Case<tile::StoreOp, tile::StoreBlockOp>(
          [&](auto store) { ofAccess(store, store.getValue().getType()); })
      .Case<tile::AtomicRMWOp, tile::AtomicCasOp, tile::AtomicBlockOp>([&](auto atomic) {
        proposeForMemory(atomic, cast<RankedTensorType>(atomic.getType()), widestAtomic(atomic),
                         result);
      })
      .Case([&](cta::DotOp dot) { proposeForDot(dot, result); })
      .Case([&](tile::ScanOp scan) { proposeForScan(scan, result); })
      .Case([&](cta::AlongKOp op) {
        if (!op.getStays())
          result.push_back(squaresLayout(
              bufferAlong(op, 1 - op.getAxis()), bufferAlong(op, op.getAxis()), target.warpSize,
              warpsOf(op), cta::elementBits(op.getType()), banksOf(target)));
      })
      // This cannot be done in any layout.
      .Case([&](tile::JoinOp join) {
        result.push_back(withPairs(plain(join.getA().getType(), join), join.getType().getShape()));
      });
  return result;
}

// Elements of a thread that may be neighbours. Threads share the core of a shape, of which each has
// all repeats: vectors longer than its share of one would leave other threads with copies.
static unsigned shareOf(ArrayRef<int64_t> shape, unsigned threads) {
  uint64_t core = 1;
  for (int64_t extent : shape)
    core *= powerOfTwoIn(extent);
  return std::max<uint64_t>(1, core / threads);
}

Layout LayoutCosts::plain(RankedTensorType type, Operation *op) const {
  const unsigned warps = warpsOf(op);
  auto order = llvm::to_vector(llvm::reverse(llvm::seq<unsigned>(0, type.getRank())));
  unsigned perThread = shareOf(type.getShape(), target.warpSize * warps);
  unsigned widest = std::max(1u, target.maxVectorBits / 8 / cta::elementBytes(type));
  return blockedForAccess(type.getShape(), std::min(perThread, widest), target.warpSize, warps,
                          order);
}

// Vectors and lanes along the dimension that is contiguous in memory. The warps go on along it, or
// along the slowest dimension first, which leaves sums along the fastest within warps.
void LayoutCosts::proposeForMemory(Operation *op, RankedTensorType type, unsigned widest,
                                   SmallVectorImpl<Layout> &proposals) const {
  const unsigned warps = warpsOf(op);
  const AccessContiguity access = contiguityOf(analysis, op);
  const Contiguity &known = access.pointers;
  const Contiguity mostly = contiguityOf(usual, op).pointers;
  auto order = llvm::to_vector<4>(llvm::reverse(llvm::seq<unsigned>(0, type.getRank())));
  // How many lanes are neighbours in memory, the closer the more.
  auto neighbours = [&](unsigned dim) {
    const Run &run = mostly[dim];
    return numbersOfSector(run, access.elementBytes) > 1 ? run.contiguity / run.gap : 1;
  };
  llvm::sort(order, [&](unsigned a, unsigned b) {
    return std::tuple(known[a].contiguity, neighbours(a), a) >
           std::tuple(known[b].contiguity, neighbours(b), b);
  });
  unsigned vector = order.empty() ? 1 : std::min(widest, vectorLength(access, order[0]));
  unsigned perThread = shareOf(type.getShape(), target.warpSize * warps);
  for (unsigned length : {vector, std::min(vector, perThread)}) {
    proposals.push_back(blockedForAccess(type.getShape(), length, target.warpSize, warps, order));
    if (type.getRank() < 2)
      continue;
    SmallVector<unsigned, 4> elements(type.getRank(), 1), lanes(type.getRank(), 1),
        perDim(type.getRank(), 1);
    elements[order[0]] = length;
    unsigned lanesLeft = target.warpSize, warpsLeft = warps;
    // Along runs first, as far as a cache line goes: the lanes beyond it may as well read others,
    // whose places in shared memory are in other banks.
    for (bool along : {true, false})
      for (unsigned dim : order) {
        unsigned most = powerOfTwoIn(type.getDimSize(dim));
        if (along) {
          const Run &run = mostly[dim];
          const uint64_t line = cacheLineBytes / (access.elementBytes * run.gap);
          most = neighbours(dim) > 1 ? std::min<int64_t>({most, run.contiguity & -run.contiguity,
                                                          int64_t(llvm::bit_floor(line))})
                                     : 1;
        }
        unsigned more = std::min(lanesLeft, std::max(1u, most / elements[dim] / lanes[dim]));
        lanes[dim] *= more;
        lanesLeft /= more;
      }
    for (unsigned dim : llvm::reverse(order)) {
      perDim[dim] = std::min(
          warpsLeft, std::max(1u, powerOfTwoIn(type.getDimSize(dim)) / elements[dim] / lanes[dim]));
      warpsLeft /= perDim[dim];
    }
    lanes[order.back()] *= lanesLeft;
    perDim[order.back()] *= warpsLeft;
    proposals.push_back(blockedLayout(type.getShape(), elements, lanes, perDim, order));
  }
}

// A layout that can be scanned at all; and runs within threads, whose lanes and warps go along the
// other dimensions as far as these reach. Along the last dimension, where neighbours are mostly
// read by neighbouring lanes, runs of threads pay for conversions that cost more than they seem to.
void LayoutCosts::proposeForScan(tile::ScanOp scan, SmallVectorImpl<Layout> &proposals) const {
  const auto type = cast<RankedTensorType>(scan.getSources()[0].getType());
  proposals.push_back(plain(type, scan));
  const unsigned rank = type.getRank(), axis = scan.getAxis(), warps = warpsOf(scan);
  const unsigned perThread = shareOf(type.getShape(), target.warpSize * warps);
  SmallVector<unsigned, 4> order;
  for (unsigned dim = rank; dim-- > 0;)
    if (dim != axis)
      order.push_back(dim);
  if (axis + 1 == rank || perThread == 1)
    return;
  order.push_back(axis);
  auto core = [&](unsigned dim) { return powerOfTwoIn(type.getDimSize(dim)); };
  for (unsigned vector : {1, 2, 4}) {
    SmallVector<unsigned, 4> elements(rank, 1), lanes(rank, 1), perDim(rank, 1);
    elements[order[0]] = std::min({vector, perThread, core(order[0])});
    elements[axis] = std::min(perThread / elements[order[0]], core(axis));
    auto spread = [&](unsigned count, SmallVector<unsigned, 4> &parts) {
      for (unsigned dim : order) {
        const unsigned taken = elements[dim] * lanes[dim] * perDim[dim];
        const unsigned more = std::min(count, std::max(1u, core(dim) / taken));
        parts[dim] *= more;
        count /= more;
      }
      parts[axis] *= count;
    };
    spread(target.warpSize, lanes);
    spread(warps, perDim);
    proposals.push_back(blockedLayout(type.getShape(), elements, lanes, perDim, order));
  }
}

void LayoutCosts::proposeForDot(cta::DotOp dot, SmallVectorImpl<Layout> &proposals) const {
  const unsigned warps = warpsOf(dot);
  ArrayRef<int64_t> shape = dot.getType().getShape();
  unsigned rank = shape.size();
  auto core = [&](unsigned dim) { return powerOfTwoIn(shape[dim]); };
  if (const MmaInstruction *instruction = instructionOf(dot, target)) {
    // All warps along the rows first: sums along rows then stay within warps.
    unsigned mostBatch = rank > 2 ? std::min(warps, core(0)) : 1;
    // Bytes that lie across K are read in pairs of columns, which are a fragment apart in the sums.
    const unsigned beside = instruction->warps() == 1 && alongKOf(dot.getB()) ? 2 : 1;
    for (unsigned warpsBatch = mostBatch; warpsBatch > 0; warpsBatch /= 2)
      for (unsigned warpsM = warps / warpsBatch; warpsM >= instruction->warps(); warpsM /= 2)
        proposals.push_back(mmaAccumulator(shape, instruction->sumFragment,
                                           {.warpsM = warpsM,
                                            .warpsN = warps / warpsBatch / warpsM,
                                            .warpsBatch = warpsBatch,
                                            .beside = beside}));
    return;
  }
  SmallVector<unsigned, 4> order;
  for (unsigned dim = rank; dim-- > 0;)
    order.push_back(dim);
  for (unsigned side : {8, 4, 2, 1}) {
    SmallVector<unsigned, 4> elements(rank, 1);
    for (unsigned dim : {rank - 2, rank - 1})
      elements[dim] = std::min(side, core(dim));
    // Threads towards a square, as far as the tile goes, which takes the fewest words of both
    // operands; or along the rows of the result, so that what is loaded beside it comes in whole
    // sectors. What is left of them to other matrices.
    for (bool square : {true, false}) {
      SmallVector<unsigned, 4> lanes(rank, 1), perDim(rank, 1);
      auto left = [&](unsigned dim) {
        return double(shape[dim]) / (elements[dim] * lanes[dim] * perDim[dim]);
      };
      auto split = [&](unsigned count, SmallVector<unsigned, 4> &parts, unsigned first) {
        for (; count > 1; count /= 2) {
          unsigned other = first == rank - 1 ? rank - 2 : rank - 1;
          bool isFirst = square ? left(first) >= left(other) : left(first) > 1;
          unsigned dim = isFirst ? first : other;
          if (rank > 2 && left(dim) <= 1 && left(0) > 1)
            dim = 0;
          parts[dim] *= 2;
        }
      };
      split(target.warpSize, lanes, rank - 1);
      split(warps, perDim, square ? rank - 1 : rank - 2);
      proposals.push_back(blockedLayout(shape, elements, lanes, perDim, order));
    }
  }
}

} // namespace sectile
