// Loops, branches and calls.
#include "ir/tile/Tile.h"
#include "jit/interpreter/Run.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace sectile::interpreter {
namespace {

void forLoop(Run &run, Operation &op) {
  auto loop = cast<scf::ForOp>(op);
  for (Value bound : {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()})
    run.requireCertain(op, bound);
  const ElementType type = run.get(loop.getLowerBound()).type;
  const int64_t begin = run.number(loop.getLowerBound()), end = run.number(loop.getUpperBound()),
                step = run.number(loop.getStep());
  if (step <= 0)
    run.fail(vgpu::FindingKind::Trap, op,
             "a loop's step is " + std::to_string(step) + ", but steps are positive");
  const bool boundWrapped =
      run.get(loop.getLowerBound()).wrappedAt(0) || run.get(loop.getUpperBound()).wrappedAt(0);
  SmallVector<ElementsRef> carried = run.passedBy(loop.getInitArgs());
  const uint64_t distance = uint64_t(end) - uint64_t(begin);
  const uint64_t iterations = begin < end ? (distance - 1) / uint64_t(step) + 1 : 0;
  for (uint64_t i = 0; i < iterations; ++i) {
    Elements counter = Elements::scalar(type, uint64_t(begin) + i * uint64_t(step));
    if (boundWrapped)
      counter.setWrapped(0);
    SmallVector<ElementsRef> arguments = {std::make_shared<const Elements>(std::move(counter))};
    arguments.append(carried);
    carried = run.call(*loop.getBody(), arguments);
  }
  run.setResults(op, carried);
}

/// Whether a loop only waits: it carries nothing on, and its condition looks at memory without a
/// change. However often it does, the loop ends in the same state.
bool onlyWaits(scf::WhileOp loop) {
  const bool isEmpty = loop.getNumResults() == 0 && llvm::hasSingleElement(*loop.getAfterBody());
  return isEmpty && llvm::all_of(loop.getBeforeBody()->without_terminator(), [](Operation &op) {
           if (auto atomic = dyn_cast<tile::AtomicRMWOp>(op))
             return atomic.getKind() == tile::AtomicKind::Add &&
                    matchPattern(atomic.getValue(), m_Zero());
           if (auto swap = dyn_cast<tile::AtomicCasOp>(op))
             return swap.getExpected() == swap.getValue();
           return isa<tile::LoadOp>(op) || isMemoryEffectFree(&op);
         });
}

void whileLoop(Run &run, Operation &op) {
  auto loop = cast<scf::WhileOp>(op);
  const bool waits = onlyWaits(loop);
  SmallVector<ElementsRef> carried = run.passedBy(loop.getInits());
  while (true) {
    SmallVector<ElementsRef> tested = run.call(*loop.getBeforeBody(), carried);
    if (!waits)
      run.requireCertain(op, loop.getConditionOp().getCondition());
    carried.assign(tested.begin() + 1, tested.end());
    if (!(*tested[0])[0])
      break;
    carried = run.call(*loop.getAfterBody(), carried);
  }
  run.setResults(op, carried);
}

void branch(Run &run, Operation &op) {
  auto branch = cast<scf::IfOp>(op);
  run.requireCertain(op, branch.getCondition());
  Region &taken = run.word(branch.getCondition()) ? branch.getThenRegion() : branch.getElseRegion();
  if (!taken.empty())
    run.setResults(op, run.call(taken.front(), {}));
}

void call(Run &run, Operation &op) {
  auto call = cast<func::CallOp>(op);
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  run.setResults(op, run.call(callee.getBody().front(), run.passedBy(op.getOperands())));
}

} // namespace

void addControl(Table &table) {
  table["scf.for"] = forLoop;
  table["scf.while"] = whileLoop;
  table["scf.if"] = branch;
  table["func.call"] = call;
}

} // namespace sectile::interpreter
