// Partitions of a kernel: which warps each has, and what it may share with the others.
#include "passes/partitions/Partitions.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Kernel.h"
#include "passes/analysis/Addresses.h"
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
  return partition.getBody()
      .walk([&](Operation *op) {
        if (isa<tile::AcquireOp, tile::CommitOp>(op))
          return WalkResult::advance();
        bool found = isa<tile::WaitOp, tile::ReleaseOp, tile::NamedBarrierOp>(op);
        if (auto fill = dyn_cast<tile::FillOp>(op))
          found = fill.getStored();
        else if (isa<tile::LoadBlockOp, cta::ConvertLayoutOp>(op))
          found = !isCopied(op->getResult(0));
        else if (op->getNumRegions() == 0)
          found |= isDoneOnce(op) || (!isLoad(op) && !isMemoryEffectFree(op)) ||
                   llvm::any_of(op->getOperandTypes(), llvm::IsaPred<RankedTensorType>) ||
                   llvm::any_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>);
        return found ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

std::optional<unsigned> warpsOfPartition(Operation *op) {
  Operation *partition = partitionOf(op);
  if (auto stated = dyn_cast_if_present<tile::PartitionOp>(partition); stated && computes(stated))
    return stated.getWarps();
  if (auto made = dyn_cast_if_present<cta::PartitionOp>(partition); made && made.getComputes())
    return made.getWarps();
  return std::nullopt;
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

unsigned launchedRegistersOf(unsigned warps, const Target &target) {
  constexpr unsigned step = 8;
  return std::min(target.registersPerUnit / (warps * target.warpSize),
                  target.maxRegistersPerThread) /
         step * step;
}

static bool isOfWarps(Value value) {
  return isa<RankedTensorType, cta::InFlightType>(value.getType());
}

LogicalResult sinkTiles(Region &body) {
  DenseMap<Value, Value> made;
  OpBuilder builder = OpBuilder::atBlockBegin(&body.front());
  auto make = [&](auto &self, Value tile) -> Value {
    if (body.isAncestor(tile.getParentRegion()))
      return tile;
    if (Value known = made.lookup(tile))
      return known;
    Operation *op = tile.getDefiningOp();
    if (!op || op->getNumResults() != 1 || !isMemoryEffectFree(op) || isa<scf::IfOp>(op))
      return {};
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(isOfWarps(operand) ? self(self, operand) : operand);
      if (!operands.back())
        return {};
    }
    Operation *copy = builder.clone(*op);
    copy->setOperands(operands);
    return made[tile] = copy->getResult(0);
  };
  WalkResult result = body.walk([&](Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isOfWarps(operand.get()) || body.isAncestor(operand.get().getParentRegion()))
        continue;
      Value own = make(make, operand.get());
      if (!own) {
        InFlightDiagnostic error =
            op->emitError("takes a tile that other warps have in their registers: a partition "
                          "loads and computes its tiles itself, or reads them from a channel");
        error.attachNote(operand.get().getLoc()) << "the tile is made here";
        return WalkResult::interrupt();
      }
      operand.set(own);
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
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
