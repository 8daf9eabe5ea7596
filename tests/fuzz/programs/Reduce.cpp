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

/// Puts what a branch or a loop has inside in its place: one side, or one round.
bool unwrap(Operation *op, unsigned side) {
  IRRewriter rewriter(op);
  Block *body = nullptr;
  SmallVector<Value> arguments;
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    body = side && !branch.getElseRegion().empty() ? branch.elseBlock() : branch.thenBlock();
  } else if (auto loop = dyn_cast<scf::ForOp>(op); loop && side == 0) {
    body = loop.getBody();
    arguments.push_back(loop.getLowerBound());
    arguments.append(loop.getInits().begin(), loop.getInits().end());
  }
  if (!body)
    return false;
  Operation *yield = body->getTerminator();
  rewriter.inlineBlockBefore(body, op, arguments);
  rewriter.replaceOp(op, yield->getOperands());
  rewriter.eraseOp(yield);
  return true;
}

/// The ways to make an operation less: its results become zero, or an operand each, or what is
/// inside takes its place.
enum Way : unsigned { ToZero, ToOperand, ToFirstSide, ToSecondSide, ways };

/// Whether that could be done.
bool remove(Operation *op, unsigned way) {
  // Combiners stay associative.
  if (op->hasTrait<OpTrait::IsTerminator>() ||
      isa<tile::ReduceOp, tile::ScanOp>(op->getParentOp()) ||
      isa<func::FuncOp, arith::ConstantOp>(op))
    return false;
  if (way >= ToFirstSide)
    return unwrap(op, way - ToFirstSide);
  OpBuilder builder(op);
  for (OpResult result : op->getResults()) {
    if (result.use_empty())
      continue;
    Value instead;
    if (way == ToZero)
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

/// What a value follows from, the operation aside that has it as a result.
void sourcesOf(Value value, SmallVectorImpl<Value> &sources) {
  auto append = [&](auto &&values) { sources.append(values.begin(), values.end()); };
  auto argument = dyn_cast<BlockArgument>(value);
  Operation *op = argument ? argument.getOwner()->getParentOp() : value.getDefiningOp();
  unsigned number = argument ? argument.getArgNumber() : cast<OpResult>(value).getResultNumber();
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    append(ValueRange{loop.getLowerBound(), loop.getUpperBound(), loop.getStep()});
    if (argument && number-- == 0)
      return;
    sources.push_back(loop.getInits()[number]);
    sources.push_back(loop.getBody()->getTerminator()->getOperand(number));
  } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
    sources.push_back(branch.getCondition());
    for (Block *block : {branch.thenBlock(), branch.elseBlock()})
      sources.push_back(block->getTerminator()->getOperand(number));
  } else if (isa<scf::WhileOp>(op)) {
    append(op->getOperands());
    for (Region &region : op->getRegions())
      append(region.front().getTerminator()->getOperands());
  } else if (auto function = dyn_cast<func::FuncOp>(op)) {
    op->getParentOfType<ModuleOp>().walk([&](func::CallOp call) {
      if (call.getCallee() == function.getName())
        append(call.getOperands());
    });
  } else if (!argument) {
    append(op->getOperands());
  }
}

/// What must stay as it is: the places of stores, as two elements might else go to one. Where
/// programs run side by side, so that they do not meet, those of loads as well.
llvm::DenseSet<Operation *> addressing(ModuleOp module, bool alone) {
  llvm::DenseSet<Operation *> found;
  llvm::DenseSet<Value> seen;
  SmallVector<Value> work;
  module.walk([&](Operation *op) {
    if (isa<tile::LoadOp, tile::LoadBlockOp>(op) && alone)
      return;
    if (auto view = dyn_cast_if_present<TypedValue<tile::ViewType>>(
            op->getNumOperands() ? op->getOperand(0) : Value()))
      work.push_back(view);
    else if (isa<tile::LoadOp, tile::StoreOp, tile::AtomicRMWOp, tile::AtomicCasOp>(op))
      work.push_back(op->getOperand(0));
  });
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    if (Operation *op = value.getDefiningOp())
      found.insert(op);
    sourcesOf(value, work);
  }
  return found;
}

/// What puts accesses in order where programs hand memory over, or one has two names: barriers,
/// flags, and the branches around them.
llvm::DenseSet<Operation *> ordering(ModuleOp module) {
  llvm::DenseSet<Operation *> found;
  auto kernel = llvm::find_if(module.getOps<func::FuncOp>(), [](func::FuncOp function) {
    return function->hasAttr(tile::kernelAttr);
  });
  // Arguments end with two numbers, or with second names.
  if (!isa<tile::PtrType>((*kernel).getArgumentTypes().back()))
    return found;
  module.walk([&](Operation *op) {
    auto loop = dyn_cast<scf::WhileOp>(op);
    if (!isa<tile::BarrierOp, tile::AtomicRMWOp, tile::AtomicCasOp>(op) &&
        !(loop && loop.getNumResults() == 0))
      return;
    if (loop)
      loop.walk([&](Operation *inner) { found.insert(inner); });
    for (; op && !isa<func::FuncOp>(op); op = op->getParentOp())
      found.insert(op);
  });
  return found;
}

/// Masks keep accesses within their memory: nothing may become true that was false.
bool isConjunction(Operation *op) {
  return isa<arith::AndIOp>(op) && tile::elementType(op->getResult(0).getType()).isInteger(1);
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
    for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (function.isPrivate() && SymbolTable::symbolKnownUseEmpty(function, module)) {
        function.erase();
        changed = true;
      }
  }
}

} // namespace

OwningOpRef<ModuleOp> reduce(ModuleOp program, bool alone, function_ref<bool(ModuleOp)> fails) {
  OwningOpRef<ModuleOp> best = program.clone();
  // Many at once to begin with, as every trial is a compile.
  for (unsigned chunk = 64; chunk > 0;) {
    bool smaller = false;
    for (unsigned way = 0; way < ways; ++way)
      for (unsigned i = 0;; i += chunk) {
        OwningOpRef<ModuleOp> trial = best->clone();
        // From the i-th operation from the end on: what is computed last is missed least.
        llvm::DenseSet<Operation *> kept = addressing(*trial, alone);
        const llvm::DenseSet<Operation *> ordered = ordering(*trial);
        SmallVector<Operation *> ops;
        trial->walk([&](Operation *op) {
          const bool stays = way < ToFirstSide ? kept.contains(op) || ordered.contains(op) ||
                                                     (way == ToOperand && isConjunction(op))
                                               : op->getNumRegions() == 0 ||
                                                     (isa<scf::IfOp>(op) && ordered.contains(op));
          if (op->getParentOp() && !stays)
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
