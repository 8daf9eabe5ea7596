// How the layouts of an operation's operands and results depend on each other.
#include "passes/analysis/LayoutRules.h"
#include "ir/MmaElements.h"
#include "ir/layout/Scan.h"
#include "passes/Kernel.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace sectile {

/// A basis vector of the sums as one of an operand (0 is A, 1 is B): where they have an axis in
/// common. The operand's other axis is the inner one.
static uint32_t alongKept(const Layout &sums, In in, unsigned bit, const Layout &operandLayout,
                          unsigned operand) {
  uint32_t place = 0;
  unsigned inner = sums.rank() - 1 - operand;
  for (unsigned dim = 0; dim < sums.rank(); ++dim)
    if (dim != inner)
      place |= uint32_t(sums.basis(in, bit, dim)) << operandLayout.shift(dim);
  return place;
}

Layout dotOperandLayout(cta::DotOp dot, const Layout &accumulator, unsigned operand) {
  return dotOperandLayout(*instructionOf(dot, *targetOf(dot)),
                          cta::shapeOf(dot->getOperand(operand).getType()), accumulator, operand);
}

Layout dotOperandLayout(const MmaInstruction &instruction, ArrayRef<int64_t> shape,
                        const Layout &accumulator, unsigned operand) {
  const Layout &fragment = instruction.operandFragment(operand);
  // An operand as one warp needs all of it; then what the sums' warps tell apart goes from
  // registers to warps. The sums may have their warps anyhow, not only as a grid.
  Layout one = operand == 0 ? mmaOperandA(shape, fragment, {}) : mmaOperandB(shape, fragment, {});
  Layout::PackedBases bases = one.packedBases();
  for (unsigned bit = 0; bit < accumulator.bits(In::Warp); ++bit) {
    uint32_t place = alongKept(accumulator, In::Warp, bit, one, operand);
    if (place)
      llvm::erase(bases[unsigned(In::Register)], place);
    bases[unsigned(In::Warp)].push_back(place);
  }
  return Layout::fromPacked(Layout::Kind::Distributed, shape, bases);
}

Layout multiplyAddOperandLayout(const Layout &sums, ArrayRef<int64_t> shape, unsigned kept) {
  Layout empty = Layout::fromPacked(Layout::Kind::Shared, shape, [&] {
    Layout::PackedBases bases;
    unsigned bits = 0;
    for (int64_t extent : shape)
      bits += llvm::countr_zero(uint64_t(extent));
    for (unsigned bit = 0; bit < bits; ++bit)
      bases[unsigned(In::Offset)].push_back(1u << bit);
    return bases;
  }());
  unsigned inner = sums.rank() - 1 - kept;
  Layout::PackedBases bases;
  auto project = [&](In in) {
    for (unsigned bit = 0; bit < sums.bits(in); ++bit)
      bases[unsigned(in)].push_back(alongKept(sums, in, bit, empty, kept));
  };
  for (unsigned bit = 0; bit < empty.coreBits(inner); ++bit)
    bases[unsigned(In::Register)].push_back(1u << (empty.shift(inner) + bit));
  project(In::Register);
  project(In::Lane);
  project(In::Warp);
  return Layout::fromPacked(Layout::Kind::Distributed, shape, bases).withoutDuplicateRegisters();
}

Layout withPairs(const Layout &layout, ArrayRef<int64_t> shape) {
  return layout.expandDim(layout.rank()).broadcast(shape);
}

// Whether a register bit, and nothing else, tells the two apart that are next to each other along
// the last axis, of extent 2.
static bool hasPairsInThreads(const Layout &layout) {
  unsigned last = layout.rank() - 1, holders = 0;
  for (In in : distributedIns)
    for (uint32_t vector : layout.packed(in))
      if (layout.along(vector, last) && (in != In::Register || vector != 1 || ++holders > 1))
        return false;
  return holders == 1;
}

bool canRunIn(Operation *op, const Layout &layout) {
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](tile::JoinOp) { return hasPairsInThreads(layout); })
      .Case([&](tile::ScanOp scan) { return planScan(layout, scan.getAxis()).has_value(); })
      .Default([](Operation *) { return true; });
}

std::optional<Layout> operandLayout(OpOperand &operand, const Layout &result) {
  Operation *op = operand.getOwner();
  auto type = dyn_cast<RankedTensorType>(operand.get().getType());
  if (!type)
    return std::nullopt;
  return TypeSwitch<Operation *, std::optional<Layout>>(op)
      .Case([&](tile::ExpandDimsOp expand) {
        return result.squeeze(expand.getAxis()).withoutDuplicateRegisters();
      })
      .Case([&](tile::BroadcastOp broadcast) {
        Layout layout = result;
        for (auto [axis, extents] :
             llvm::enumerate(llvm::zip(type.getShape(), broadcast.getType().getShape())))
          if (std::get<0>(extents) != std::get<1>(extents))
            layout = layout.collapse(axis);
        return layout.withoutDuplicateRegisters();
      })
      .Case([&](tile::PermuteOp permute) {
        SmallVector<int64_t> inverse(permute.getOrder().size());
        for (auto [to, from] : llvm::enumerate(permute.getOrder()))
          inverse[from] = to;
        return result.permute(inverse);
      })
      .Case([&](tile::ReshapeOp) { return result.reshape(type.getShape()); })
      .Case(
          [&](tile::JoinOp) { return result.squeeze(type.getRank()).withoutDuplicateRegisters(); })
      .Case([&](tile::SplitOp) { return withPairs(result, type.getShape()); })
      .Case([&](tile::GatherOp) {
        return operand.getOperandNumber() == 0 ? std::nullopt : std::optional(result);
      })
      .Case([&](cta::DotOp dot) -> std::optional<Layout> {
        if (operand.getOperandNumber() == 2)
          return result;
        const MmaInstruction *instruction = instructionOf(dot, *targetOf(dot));
        if (!instruction || instruction->home(operand.getOperandNumber()) == OperandHome::Shared)
          return std::nullopt;
        return dotOperandLayout(dot, result, operand.getOperandNumber());
      })
      .Case<tile::ReduceOp, tile::HistogramOp, cta::ConvertLayoutOp, cta::AllocOp>(
          [&](auto) { return std::nullopt; })
      .Default([&](Operation *) { return result; });
}

std::optional<Layout> resultLayout(Operation *op, OpOperand &operand, const Layout &layout) {
  if (op->getNumResults() == 0 || !isa<RankedTensorType>(op->getResult(0).getType()))
    return std::nullopt;
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  return TypeSwitch<Operation *, std::optional<Layout>>(op)
      .Case([&](tile::ExpandDimsOp expand) { return layout.expandDim(expand.getAxis()); })
      .Case([&](tile::BroadcastOp) { return layout.broadcast(type.getShape()); })
      .Case([&](tile::PermuteOp permute) {
        SmallVector<int64_t> order(permute.getOrder().begin(), permute.getOrder().end());
        return layout.permute(order);
      })
      .Case([&](tile::ReshapeOp) { return layout.reshape(type.getShape()); })
      .Case([&](tile::JoinOp) { return withPairs(layout, type.getShape()); })
      .Case([&](tile::SplitOp) -> std::optional<Layout> {
        if (!hasPairsInThreads(layout))
          return std::nullopt;
        return layout.squeeze(type.getRank()).withoutDuplicateRegisters();
      })
      .Case([&](tile::GatherOp) {
        return operand.getOperandNumber() == 0 ? std::nullopt : std::optional(layout);
      })
      .Case([&](tile::ReduceOp reduce) {
        return layout.squeeze(reduce.getAxis()).withoutDuplicateRegisters();
      })
      .Case([&](cta::DotOp) -> std::optional<Layout> {
        return operand.getOperandNumber() == 2 ? std::optional(layout) : std::nullopt;
      })
      .Default([&](Operation *) { return layout; });
}

} // namespace sectile
