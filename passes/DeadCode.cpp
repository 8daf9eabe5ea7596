// Removal of what a pass leaves without use: operations, and values that loops carry for nothing.
#include "passes/DeadCode.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Iterators.h"
#include "passes/Kernel.h"

using namespace mlir;

namespace sectile {

namespace {

/// Which operations of a loop's body, and which of the values it carries, something depends on.
class LoopUses {
public:
  explicit LoopUses(scf::ForOp loop) : loop(loop), carried(loop.getNumResults()) {
    for (Operation &op : loop.getBody()->without_terminator())
      if (!wouldOpBeTriviallyDead(&op))
        need(&op);
    for (unsigned n = 0; n < carried.size(); ++n)
      if (!loop.getResult(n).use_empty())
        needCarried(n);
    while (!worklist.empty())
      worklist.pop_back_val()->walk([&](Operation *op) {
        for (Value operand : op->getOperands())
          need(operand);
      });
  }

  bool isNeeded(Operation *op) const { return ops.contains(op); }
  bool isCarriedNeeded(unsigned number) const { return carried[number]; }

private:
  void need(Operation *op) {
    if (ops.insert(op).second)
      worklist.push_back(op);
  }
  void need(Value value) {
    if (Operation *def = value.getDefiningOp()) {
      if (Operation *op = loop.getBody()->findAncestorOpInBlock(*def))
        need(op);
    } else if (auto argument = cast<BlockArgument>(value);
               argument.getOwner() == loop.getBody() && argument != loop.getInductionVar()) {
      needCarried(argument.getArgNumber() - 1);
    }
  }
  void needCarried(unsigned number) {
    if (carried[number])
      return;
    carried[number] = true;
    need(loop.getYieldedValues()[number]);
  }

  scf::ForOp loop;
  DenseSet<Operation *> ops;
  llvm::BitVector carried;
  SmallVector<Operation *> worklist;
};

} // namespace

static void dropUnusedCarried(scf::ForOp loop) {
  LoopUses uses(loop);
  llvm::BitVector unused(loop.getNumResults());
  SmallVector<Value> inits, results;
  for (unsigned n = 0; n < loop.getNumResults(); ++n) {
    if (uses.isCarriedNeeded(n)) {
      inits.push_back(loop.getInitArgs()[n]);
      results.push_back(loop.getResult(n));
    } else {
      unused.set(n);
    }
  }
  if (unused.none())
    return;
  Block *body = loop.getBody();
  body->getTerminator()->eraseOperands(unused);
  SmallVector<Operation *> dead;
  for (Operation &op : body->without_terminator())
    if (!uses.isNeeded(&op))
      dead.push_back(&op);
  for (Operation *op : llvm::reverse(dead)) {
    op->dropAllUses();
    op->erase();
  }
  llvm::BitVector unusedArguments(1);
  for (unsigned n = 0; n < unused.size(); ++n)
    unusedArguments.push_back(unused[n]);
  body->eraseArguments(unusedArguments);
  OpBuilder builder(loop);
  auto narrower = scf::ForOp::create(builder, loop.getLoc(), loop.getLowerBound(),
                                     loop.getUpperBound(), loop.getStep(), inits);
  narrower.setUnsignedCmp(loop.getUnsignedCmp());
  narrower->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  narrower.getRegion().takeBody(loop.getRegion());
  for (auto [before, after] : llvm::zip(results, narrower.getResults()))
    before.replaceAllUsesWith(after);
  loop.erase();
}

void eraseDeadCode(Operation *root) {
  for (scf::ForOp loop : allIn<scf::ForOp>(root))
    dropUnusedCarried(loop);
  root->walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
    if (isOpTriviallyDead(op))
      op->erase();
  });
}

} // namespace sectile
