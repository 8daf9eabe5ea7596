// Operations whose elements meet in shared memory by numbers known at run time only: tile.gather,
// tile.histogram; and tile.reshape where elements change threads.
#include "codegen/common/Conversions.h"
#include "codegen/common/RowMajor.h"
#include "passes/analysis/SharedMemory.h"

using namespace mlir;

namespace sectile {

static FailureOr<llvm::Value *> scratchAt(KernelEmitter &emitter, Operation *op) {
  auto offset = sharedOffset(op);
  if (!offset)
    return op->emitError("needs scratch in shared memory, which has not been placed");
  return emitter.sharedAddress(*offset);
}

LogicalResult emitGather(KernelEmitter &emitter, tile::GatherOp op) {
  llvm::IRBuilder<> &b = emitter.b;
  auto base = scratchAt(emitter, op);
  if (failed(base))
    return failure();
  auto from = op.getSource().getType();
  Type element = from.getElementType();
  storeRowMajor(emitter, emitter.registers(op.getSource()), *cta::layoutOf(from), element, *base);
  emitter.barrier();
  // The other coordinates are the result's, their strides the source's.
  const Layout &layout = *cta::layoutOf(op.getType());
  unsigned axis = op.getAxis();
  uint32_t last = from.getDimSize(axis) - 1;
  RowMajorIndex index(emitter, layout, from.getShape());
  ArrayRef<unsigned> first = emitter.firstCopies(layout);
  Registers &indices = emitter.registers(op.getIndices()), result;
  for (auto [reg, number] : llvm::enumerate(indices)) {
    if (!first.empty() && first[reg] < reg) {
      result.push_back(result[first[reg]]);
      continue;
    }
    // An index that is out of range, whatever it is, reads within the scratch.
    llvm::Value *inside = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, number, b.getInt32(last));
    llvm::Value *along = b.CreateMul(inside, b.getInt32(index.stride(axis)), "", true, true);
    llvm::Value *place = b.CreateAdd(index.of(reg, axis), along, "", true, true);
    result.push_back(loadElement(emitter, place, element, *base));
  }
  emitter.define(op, std::move(result));
  return success();
}

LogicalResult emitReshapeThroughScratch(KernelEmitter &emitter, tile::ReshapeOp op) {
  auto base = scratchAt(emitter, op);
  if (failed(base))
    return failure();
  auto from = op.getSource().getType();
  storeRowMajor(emitter, emitter.registers(op.getSource()), *cta::layoutOf(from),
                from.getElementType(), *base);
  emitter.barrier();
  emitter.define(op,
                 loadRowMajor(emitter, *cta::layoutOf(op.getType()), from.getElementType(), *base));
  return success();
}

LogicalResult emitHistogram(KernelEmitter &emitter, tile::HistogramOp op) {
  llvm::IRBuilder<> &b = emitter.b;
  auto base = scratchAt(emitter, op);
  if (failed(base))
    return failure();
  Type count = op.getType().getElementType();
  uint32_t bins = op.getType().getNumElements();
  auto binAt = [&](llvm::Value *number) {
    return b.CreateInBoundsGEP(b.getInt32Ty(), *base, number);
  };
  for (uint32_t from = 0; from < bins; from += emitter.numThreads()) {
    llvm::Value *bin = b.CreateAdd(emitter.threadIndex(), b.getInt32(from));
    bool all = from + emitter.numThreads() <= bins;
    emitter.under(all ? nullptr : b.CreateICmpULT(bin, b.getInt32(bins)),
                  [&] { b.CreateAlignedStore(b.getInt32(0), binAt(bin), llvm::Align(4)); });
  }
  emitter.barrier();
  const Layout &layout = *cta::layoutOf(op.getSource().getType());
  ArrayRef<unsigned> first = emitter.firstCopies(layout);
  Registers &numbers = emitter.registers(op.getSource());
  Registers *masks = op.getMask() ? &emitter.registers(op.getMask()) : nullptr;
  Registers *weights = op.getWeights() ? &emitter.registers(op.getWeights()) : nullptr;
  const auto add = count.isF32() ? llvm::AtomicRMWInst::FAdd : llvm::AtomicRMWInst::Add;
  emitter.under(emitter.isWriter(layout), [&] {
    for (auto [reg, number] : llvm::enumerate(numbers)) {
      if (!first.empty() && first[reg] < reg)
        continue;
      llvm::Value *counts = b.CreateICmpULT(number, b.getInt32(bins));
      if (masks)
        counts = b.CreateAnd(counts, (*masks)[reg]);
      emitter.under(counts, [&] {
        b.CreateAtomicRMW(add, binAt(number), weights ? (*weights)[reg] : b.getInt32(1),
                          llvm::Align(4), llvm::AtomicOrdering::Monotonic);
      });
    }
  });
  emitter.barrier();
  emitter.define(op, loadRowMajor(emitter, *cta::layoutOf(op.getType()), count, *base));
  return success();
}

} // namespace sectile
