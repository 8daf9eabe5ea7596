// Makes a failing program smaller.
#include "Reduce.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace sectile::fuzz {

namespace {

/// Zero, or nothing for types that have none.
Value zero(OpBuilder &builder, Location loc, Type type) {
  TypedAttr attr = builder.getZeroAttr(type);
  return attr ? Value(arith::ConstantOp::create(builder, loc, attr)) : Value();
}

/// Takes an operation away: what it gives becomes another value of its type or zero. Whether that
/// could be done.
bool remove(Operation *op, unsigned way) {
  // Combiners stay associative.
  if (op->hasTrait<OpTrait::IsTerminator>() ||
      isa<tile::ReduceOp, tile::ScanOp>(op->getParentOp()) ||
      isa<func::FuncOp, arith::ConstantOp>(op))
    return false;
  OpBuilder builder(op);
  for (OpResult result : op->getResults()) {
    if (result.use_empty())
      continue;
    Value instead;
    if (way == 0)
      instead = zero(builder, op->getLoc(), result.getType());
    else
      for (Value operand : op->getOperands())
        if (operand.getType() == result.getType())
          instead = operand;
    if (!instead)
      return false;
    result.replaceAllUsesWith(instead);
  }
  op->erase();
  return true;
}

/// What the addresses of stores are computed from: without it two elements might go to one place.
llvm::DenseSet<Operation *> addressing(ModuleOp module) {
  llvm::DenseSet<Operation *> found;
  SmallVector<Value> work;
  module.walk([&](tile::StoreOp store) { work.push_back(store.getPtr()); });
  module.walk([&](tile::StoreBlockOp store) { work.push_back(store.getView()); });
  module.walk([&](tile::AtomicRMWOp atomic) { work.push_back(atomic.getPtr()); });
  module.walk([&](tile::AtomicCasOp atomic) { work.push_back(atomic.getPtr()); });
  module.walk([&](tile::AtomicBlockOp atomic) { work.push_back(atomic.getView()); });
  while (!work.empty())
    if (Operation *op = work.pop_back_val().getDefiningOp(); op && found.insert(op).second)
      work.append(op->operand_begin(), op->operand_end());
  return found;
}

void eraseUnused(ModuleOp module) {
  bool changed = true;
  while (changed) {
    changed = false;
    module.walk([&](Operation *op) {
      if (op->use_empty() && op->getNumResults() &&
          (isMemoryEffectFree(op) || isa<tile::LoadOp, tile::LoadBlockOp>(op))) {
        op->erase();
        changed = true;
      }
    });
  }
}

} // namespace

OwningOpRef<ModuleOp> reduce(ModuleOp program, function_ref<bool(ModuleOp)> fails) {
  OwningOpRef<ModuleOp> best = program.clone();
  // Many at once to begin with, as every trial is a compile.
  for (unsigned chunk = 64; chunk > 0;) {
    bool smaller = false;
    for (unsigned way = 0; way < 2; ++way)
      for (unsigned i = 0;; i += chunk) {
        OwningOpRef<ModuleOp> trial = best->clone();
        // From the i-th operation from the end on: what is computed last is missed least.
        llvm::DenseSet<Operation *> kept = addressing(*trial);
        SmallVector<Operation *> ops;
        trial->walk([&](Operation *op) {
          if (op->getParentOp() && !kept.contains(op))
            ops.push_back(op);
        });
        if (i >= ops.size())
          break;
        bool removed = false;
        // Several at once only of those that have nothing inside.
        for (Operation *op : llvm::reverse(ArrayRef(ops).drop_back(i).take_back(chunk)))
          if (chunk == 1 || op->getNumRegions() == 0)
            removed |= remove(op, way);
        if (!removed)
          continue;
        eraseUnused(*trial);
        if (failed(verify(*trial)) || !fails(*trial))
          continue;
        best = std::move(trial);
        smaller = true;
      }
    if (!smaller)
      chunk /= 4;
  }
  return best;
}

} // namespace sectile::fuzz
