// Operations on shapes: registers change their names, nothing moves.
#include "codegen/common/Conversions.h"
#include "passes/analysis/LayoutRules.h"

using namespace mlir;

namespace sectile {

void KernelEmitter::emitArange(tile::ArangeOp op) {
  const Layout &layout = *cta::layoutOf(op.getType());
  ThreadPart part = threadPart(layout.packed(In::Lane), layout.packed(In::Warp));
  ArrayRef<unsigned> first = firstCopies(layout);
  const int32_t start = op.getStart(); // the attribute's accessor has no sign
  Registers result;
  for (unsigned reg = 0; reg < layout.numRegisters(); ++reg) {
    if (!first.empty() && first[reg] < reg) {
      result.push_back(result[first[reg]]);
      continue;
    }
    uint32_t inCore = layout.applyPacked(Place::of(reg % layout.coreRegisters()));
    auto [variable, constant] = combine(part, inCore);
    int64_t offset =
        start + int64_t(constant) + (int64_t(reg / layout.coreRegisters()) << layout.coreBits());
    llvm::Value *fixed = b.getInt32(offset);
    // Disjoint bits within the core; beyond it the sum stays far below the type's end.
    result.push_back(!variable ? fixed
                     : offset  ? b.CreateAdd(variable, fixed, "", /*HasNUW=*/start >= 0,
                                             /*HasNSW=*/true)
                               : variable);
  }
  define(op, std::move(result));
}

/// Defines `result` with the values that a thread holds in the layout `natural` of the same tile.
LogicalResult KernelEmitter::rename(Operation *op, const Layout &natural,
                                    ArrayRef<llvm::Value *> values, Value result) {
  const Layout &layout = *cta::layoutOf(result.getType());
  if (natural == layout) {
    define(result, Registers(values));
    return success();
  }
  auto from = registersInThread(natural, layout);
  if (!from)
    return op->emitError("the result's layout is not the operand's: ")
           << layout.text() << " instead of " << natural.text();
  Registers renamed;
  for (unsigned reg : *from)
    renamed.push_back(values[reg]);
  define(result, std::move(renamed));
  return success();
}

LogicalResult KernelEmitter::emitReshape(tile::ReshapeOp op) {
  auto natural = cta::layoutOf(op.getSource().getType())->reshape(op.getType().getShape());
  if (!natural)
    return emitReshapeThroughScratch(*this, op);
  return rename(op, *natural, registers(op.getSource()), op);
}

void KernelEmitter::emitExtractSlice(cta::ExtractSliceOp op) {
  const Layout &layout = *cta::layoutOf(op.getSource().getType());
  Registers &source = registers(op.getSource());
  Registers result;
  for (unsigned reg = 0; reg < cta::layoutOf(op.getType())->numRegisters(); ++reg)
    result.push_back(source[layout.slicedRegister(op.getDim(), op.getCount(), op.getIndex(), reg)]);
  define(op, std::move(result));
}

LogicalResult KernelEmitter::emitBroadcast(tile::BroadcastOp op) {
  auto from =
      broadcastRegisters(*cta::layoutOf(op.getSource().getType()), *cta::layoutOf(op.getType()));
  if (!from)
    return op.emitError("the result's layout is not a broadcast of the operand's");
  Registers &source = registers(op.getSource());
  Registers result;
  for (unsigned reg : *from)
    result.push_back(source[reg]);
  define(op, std::move(result));
  return success();
}

LogicalResult KernelEmitter::emitPermute(tile::PermuteOp op) {
  const Layout &layout = *cta::layoutOf(op.getSource().getType());
  SmallVector<int64_t> order(op.getOrder().begin(), op.getOrder().end());
  Registers &source = registers(op.getSource());
  Registers permuted(source.size());
  for (unsigned reg = 0; reg < source.size(); ++reg)
    permuted[layout.permutedRegister(order, reg)] = source[reg];
  return rename(op, layout.permute(order), permuted, op);
}

LogicalResult KernelEmitter::emitJoin(tile::JoinOp op) {
  const Layout &layout = *cta::layoutOf(op.getA().getType());
  Registers joined;
  for (unsigned repeat = 0; repeat < layout.numRepeats(); ++repeat)
    for (Value side : {op.getA(), op.getB()}) {
      auto *from = registers(side).begin() + repeat * layout.coreRegisters();
      joined.append(from, from + layout.coreRegisters());
    }
  return rename(op, withPairs(layout, op.getType().getShape()), joined, op.getResult());
}

LogicalResult KernelEmitter::emitSplit(tile::SplitOp op) {
  const Layout &layout = *cta::layoutOf(op.getFirst().getType());
  const Layout &given = *cta::layoutOf(op.getSource().getType());
  auto from = registersInThread(given, withPairs(layout, given.shape()));
  if (!from)
    return op.emitError("the halves are not in the same threads under ") << given.text();
  Registers first, second;
  for (auto [reg, source] : llvm::enumerate(*from)) {
    bool isSecond = reg / layout.coreRegisters() % 2;
    (isSecond ? second : first).push_back(registers(op.getSource())[source]);
  }
  define(op.getFirst(), std::move(first));
  define(op.getSecond(), std::move(second));
  return success();
}

} // namespace sectile
