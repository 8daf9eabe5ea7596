// Partitions of a kernel: what they may share.
#include "passes/partitions/Partitions.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/analysis/Addresses.h"
#include "passes/analysis/Warps.h"

using namespace mlir;

namespace sectile {

static bool isOfWarps(Value value) {
  return isa<RankedTensorType, cta::InFlightType>(value.getType());
}

void shareScalars(MutableArrayRef<cta::PartitionOp> partitions) {
  Operation *first = partitions.front();
  Block *body = first->getBlock();
  auto isBefore = [&](Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return argument.getOwner() == body;
    Operation *op = value.getDefiningOp();
    return op->getBlock() == body && op->isBeforeInBlock(first);
  };
  auto isShared = [&](Operation &op) {
    return op.getNumRegions() == 0 && op.getNumResults() == 1 && isMemoryEffectFree(&op) &&
           !isOfWarps(op.getResult(0)) && llvm::all_of(op.getOperands(), isBefore);
  };
  SmallVector<Operation *> shared;
  for (Operation &op : llvm::make_range(body->begin(), first->getIterator()))
    if (isShared(op))
      shared.push_back(&op);
  auto replace = [&](Operation &op) {
    for (Operation *same : shared)
      if (OperationEquivalence::isEquivalentTo(&op, same, OperationEquivalence::IgnoreLocations)) {
        op.replaceAllUsesWith(same);
        op.erase();
        return true;
      }
    return false;
  };
  for (cta::PartitionOp partition : partitions)
    for (Operation &op : llvm::make_early_inc_range(partition.getBody().front()))
      if (isShared(op) && !replace(op)) {
        op.moveBefore(first);
        shared.push_back(&op);
      }
  for (Operation &op :
       llvm::make_early_inc_range(llvm::make_range(partitions.back()->getIterator(), body->end())))
    if (isShared(op))
      replace(op);
}

LogicalResult checkMemoryOfPartitions(func::FuncOp kernel) {
  AddressAnalysis addresses(kernel);
  EndedIterations all = 0;
  kernel.walk([&](scf::ForOp loop) { all |= addresses.bitOf(loop); });
  struct Access {
    Operation *op;
    GlobalAccess access;
  };
  std::vector<Access> reads, writes;
  kernel.walk([&](Operation *op) {
    if (std::optional<GlobalAccess> access = addresses.accessOf(op))
      (access->writes ? writes : reads).push_back({op, *std::move(access)});
  });
  for (const Access &read : reads)
    for (const Access &write : writes)
      if (partitionOf(read.op) != partitionOf(write.op) &&
          (addresses.mayOverlap(read.access, write.access, all) ||
           addresses.mayOverlap(write.access, read.access, all))) {
        InFlightDiagnostic error =
            read.op->emitError("may read what other warps of the kernel write: nothing orders what "
                               "partitions do to global memory");
        error.attachNote(write.op->getLoc()) << "it is written here";
        return error;
      }
  return success();
}

} // namespace sectile
