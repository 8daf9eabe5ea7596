// Which warps do an operation, and the numbers that warps and barriers of partitions have.
#include "passes/analysis/Warps.h"
#include "passes/analysis/Blocks.h"
#include "passes/analysis/SharedMemory.h"
#include <functional>

using namespace mlir;

namespace sectile {

Operation *partitionOf(Operation *op) {
  for (; op && !isa<func::FuncOp>(op); op = op->getParentOp())
    if (isa<tile::PartitionOp, cta::PartitionOp>(op))
      return op;
  return nullptr;
}

bool computes(tile::PartitionOp partition) {
  const std::function<bool(Value)> isCopied = [&](Value tile) {
    return llvm::all_of(tile.getUsers(), [&](Operation *user) {
      auto fill = dyn_cast<tile::FillOp>(user);
      return (fill && !fill.getStored()) ||
             (isa<cta::ConvertLayoutOp>(user) && isCopied(user->getResult(0)));
    });
  };
  return anyIn(partition, [&](Operation *op) {
    if (isa<tile::AcquireOp, tile::CommitOp, tile::MbarrierArriveOp, tile::MbarrierWaitOp>(op))
      return false;
    if (auto fill = dyn_cast<tile::FillOp>(op))
      return fill.getStored();
    if (isa<tile::LoadBlockOp, cta::ConvertLayoutOp>(op))
      return !isCopied(op->getResult(0));
    if (isa<tile::WaitOp, tile::ReleaseOp, tile::NamedBarrierOp>(op))
      return true;
    return op->getNumRegions() == 0 &&
           (isDoneOnce(op) || (!isLoad(op) && !isMemoryEffectFree(op)) ||
            llvm::any_of(op->getOperandTypes(), llvm::IsaPred<RankedTensorType>) ||
            llvm::any_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>));
  });
}

std::optional<unsigned> warpsOfPartition(Operation *op) {
  Operation *partition = partitionOf(op);
  if (auto stated = dyn_cast_if_present<tile::PartitionOp>(partition); stated && computes(stated))
    return stated.getWarps();
  if (auto made = dyn_cast_if_present<cta::PartitionOp>(partition); made && made.getComputes())
    return made.getWarps();
  return std::nullopt;
}

unsigned warpsOf(Operation *op) {
  if (std::optional<unsigned> warps = warpsOfPartition(op))
    return *warps;
  auto kernel = dyn_cast<func::FuncOp>(op);
  return warpsOf(kernel ? kernel : op->getParentOfType<func::FuncOp>());
}

bool isForOneThread(Operation *op) {
  auto partition = dyn_cast_if_present<cta::PartitionOp>(partitionOf(op));
  return partition && !partition.getComputes();
}

SmallVector<cta::PartitionOp> computingPartitionsOf(func::FuncOp kernel) {
  SmallVector<cta::PartitionOp> found;
  for (auto partition : kernel.getBody().getOps<cta::PartitionOp>())
    if (partition.getComputes())
      found.push_back(partition);
  return found;
}

unsigned firstWarpOf(cta::PartitionOp partition) {
  auto kernel = cast<func::FuncOp>(partition->getParentOp());
  auto rank = [](cta::PartitionOp of) { return of.getComputes() ? of.getWarps() : 0; };
  unsigned first = warpsOf(kernel);
  for (auto other : kernel.getBody().getOps<cta::PartitionOp>())
    if (rank(other) > rank(partition) ||
        (rank(other) == rank(partition) && other->isBeforeInBlock(partition)))
      first += other.getWarps();
  return first;
}

unsigned barrierOf(cta::PartitionOp partition) {
  const auto computing = computingPartitionsOf(partition->getParentOfType<func::FuncOp>());
  return mainBarrier + 1 + unsigned(llvm::find(computing, partition) - computing.begin());
}

unsigned firstNamedBarrier(func::FuncOp kernel) {
  return mainBarrier + 1 + unsigned(computingPartitionsOf(kernel).size());
}

} // namespace sectile
