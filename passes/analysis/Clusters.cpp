// A value is alike where all that it is computed from is.
#include "passes/analysis/Clusters.h"
#include "ir/cta/Cta.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Kernel.h"
#include "passes/analysis/MemoryOrder.h"
#include "passes/analysis/Scalars.h"
#include "passes/analysis/SharedMemory.h"

using namespace mlir;

namespace sectile {

unsigned clusterOf(func::FuncOp kernel) {
  auto cluster = kernel->getAttrOfType<IntegerAttr>(tile::clusterAttr);
  return cluster ? unsigned(cluster.getInt()) : 1;
}

bool mayAwaitPrograms(func::FuncOp kernel) {
  auto asksMemory = [](Operation *op) {
    auto load = dyn_cast<tile::LoadOp>(op);
    return isAtomic(op) || (load && load.getIsVolatile());
  };
  return anyIn(kernel, [&](scf::WhileOp loop) { return anyIn(loop, asksMemory); });
}

bool ClusterValues::areAlike(ValueRange values) {
  return llvm::all_of(values, [&](Value value) { return areAlike(value); });
}

bool ClusterValues::areAlike(Value value) {
  auto [at, isNew] = known.try_emplace(value, true);
  if (!isNew)
    return at->second;
  const bool found = find(value);
  // What was found from a loop's values may rest on them.
  if (!found)
    known.clear();
  known[value] = found;
  return found;
}

/// The number of the program along the first axis, whatever its width.
static bool isProgramNumber(Value value) {
  while (auto op = value.getDefiningOp()) {
    if (auto id = dyn_cast<tile::ProgramIdOp>(op))
      return id.getAxis() == 0;
    if (!isa<arith::ExtSIOp, arith::ExtUIOp, arith::IndexCastOp, arith::IndexCastUIOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return false;
}

bool ClusterValues::find(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    Operation *owner = argument.getOwner()->getParentOp();
    if (isa<func::FuncOp>(owner))
      return true;
    auto loop = dyn_cast<scf::ForOp>(owner);
    if (!loop || !areAlike({loop.getLowerBound(), loop.getStep()}))
      return false;
    if (value == loop.getInductionVar())
      return true;
    const unsigned i = argument.getArgNumber() - loop.getNumInductionVars();
    return areAlike(loop.getInitArgs()[i]) && areAlike(loop.getYieldedValues()[i]);
  }
  Operation *op = value.getDefiningOp();
  if (isa<arith::DivSIOp, arith::DivUIOp>(op) && isProgramNumber(op->getOperand(0)))
    if (auto divisor = constantInt(op->getOperand(1)); divisor && *divisor > 0)
      return *divisor % cluster == 0;
  if (auto id = dyn_cast<tile::ProgramIdOp>(op))
    return id.getAxis() != 0;
  if (isa<tile::NumProgramsOp>(op))
    return true;
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    const unsigned i = cast<OpResult>(value).getResultNumber();
    return areAlike({loop.getLowerBound(), loop.getUpperBound(), loop.getStep()}) &&
           areAlike(loop.getRegionIterArgs()[i]);
  }
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    const unsigned i = cast<OpResult>(value).getResultNumber();
    return areAlike(branch.getCondition()) && areAlike(branch.thenYield()->getOperand(i)) &&
           areAlike(branch.elseYield()->getOperand(i));
  }
  return isScalarArithmetic(op) && areAlike(op->getOperands());
}

bool ClusterValues::runAlike(Operation *op) {
  for (Operation *around = op->getParentOp(); !isa<func::FuncOp>(around);
       around = around->getParentOp()) {
    if (isa<cta::PartitionOp>(around)) // which each block has
      continue;
    auto loop = dyn_cast<scf::ForOp>(around);
    if (!loop || !areAlike({loop.getLowerBound(), loop.getUpperBound(), loop.getStep()}))
      return false;
  }
  return true;
}

} // namespace sectile
