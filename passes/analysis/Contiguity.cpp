// The walk of the contiguity analysis over blocks, branches and loops; the rules per operation are
// in ContiguityRules.cpp.
#include "passes/analysis/Contiguity.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;

namespace sectile {

int64_t stepOf(Type type) {
  auto ptr = dyn_cast<tile::PtrType>(tile::elementType(type));
  if (!ptr)
    return 1;
  Type element = ptr.getElement();
  return element.isIntOrFloat() ? llvm::divideCeil(element.getIntOrFloatBitWidth(), 8) : 8;
}

int64_t divisibilityOfRuns(const Run &run, int64_t length, int64_t step) {
  if (length % run.contiguity == 0)
    return run.divisibility;
  // The new runs begin within the old ones, as far in as a multiple of both lengths' common
  // divisor.
  int64_t begin = std::gcd(length, run.contiguity) * step;
  return std::min(run.divisibility, begin & -begin);
}

Contiguity Contiguity::unknown(Type type) {
  int64_t step = stepOf(type);
  auto tensor = dyn_cast<RankedTensorType>(type);
  Contiguity result;
  result.dims.assign(tensor ? tensor.getRank() : 1, Run{1, 1, step & -step});
  return result;
}

Contiguity joined(const Contiguity &a, const Contiguity &b, int64_t step) {
  Contiguity result;
  for (auto [x, y] : llvm::zip_equal(a.dims, b.dims)) {
    Run run;
    run.contiguity = std::gcd(x.contiguity, y.contiguity);
    run.constancy = std::gcd(x.constancy, y.constancy);
    run.divisibility = std::min(divisibilityOfRuns(x, run.contiguity, step),
                                divisibilityOfRuns(y, run.contiguity, step));
    run.gap = std::max(x.gap, y.gap);
    result.dims.push_back(run);
  }
  if (a.constant == b.constant)
    result.constant = a.constant;
  result.nonNegative = a.nonNegative && b.nonNegative;
  return result;
}

ContiguityAnalysis::ContiguityAnalysis(Operation *root, Certainty certainty)
    : certainty(certainty) {
  root->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op->getNumRegions() && op->hasTrait<OpTrait::IsIsolatedFromAbove>() && !isa<ModuleOp>(op)) {
      visitRegions(*op);
      return WalkResult::skip();
    }
    return WalkResult::advance();
  });
}

const Contiguity &ContiguityAnalysis::operator[](Value value) const {
  auto it = known.find(value);
  assert(it != known.end() && "a value made after the analysis");
  return it->second;
}

void ContiguityAnalysis::visitRegions(Operation &op) {
  auto func = dyn_cast<func::FuncOp>(op);
  for (Region &region : op.getRegions())
    for (Block &block : region) {
      for (BlockArgument argument : block.getArguments()) {
        Contiguity what = Contiguity::unknown(argument.getType());
        if (auto divisor = func ? func.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(),
                                                                     tile::divisibleAttr)
                                : IntegerAttr()) {
          int64_t power = divisor.getInt() & -divisor.getInt();
          what.dims[0].divisibility = std::max(what.dims[0].divisibility, power);
        }
        known[argument] = what;
      }
      visit(block);
    }
}

void ContiguityAnalysis::visit(Block &block) {
  for (Operation &op : block)
    visit(op);
}

void ContiguityAnalysis::visit(Operation &op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return visitFor(loop);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return visitWhile(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return visitIf(branch);
  if (auto assumption = dyn_cast<tile::AssumeOp>(op))
    return assume(assumption.getCondition(), op.getBlock());
  visitRegions(op);
  SmallVector<const Contiguity *, 4> operands;
  for (Value operand : op.getOperands())
    operands.push_back(&(*this)[operand]);
  if (std::optional<Contiguity> what = inferContiguity(op, operands, certainty)) {
    known[op.getResult(0)] = std::move(*what);
    return;
  }
  for (Value result : op.getResults())
    known[result] = Contiguity::unknown(result.getType());
}

// Facts about a value hold wherever it does if the promise is made in its own block: every time the
// value is made the promise is, too.
void ContiguityAnalysis::assume(Value condition, Block *block) {
  if (auto both = condition.getDefiningOp<arith::AndIOp>()) {
    assume(both.getLhs(), block);
    assume(both.getRhs(), block);
    return;
  }
  using enum arith::CmpIPredicate;
  auto compare = condition.getDefiningOp<arith::CmpIOp>();
  APInt bound;
  if (!compare || !matchPattern(compare.getRhs(), m_ConstantInt(&bound)))
    return;
  Value value = compare.getLhs();
  arith::CmpIPredicate predicate = compare.getPredicate();
  if ((predicate == sge && !bound.isNegative()) || (predicate == sgt && bound.sge(-1))) {
    if (value.getParentBlock() == block)
      known[value].nonNegative = true;
    return;
  }
  Operation *op = value.getDefiningOp();
  APInt by;
  if (predicate != eq || !bound.isZero() || !op || op->getNumOperands() != 2 ||
      !matchPattern(op->getOperand(1), m_ConstantInt(&by)))
    return;
  int64_t divisor = 1;
  if (isa<arith::RemSIOp, arith::RemUIOp>(op))
    divisor = by.getSExtValue() & -by.getSExtValue();
  else if (isa<arith::AndIOp>(op) && (by + 1).isPowerOf2())
    divisor = by.getSExtValue() + 1;
  Value dividend = op->getOperand(0);
  if (divisor > 1 && divisor <= int64_t(1) << 30 && dividend.getParentBlock() == block) {
    int64_t &divisibility = known[dividend].dims[0].divisibility;
    divisibility = std::max(divisibility, divisor);
  }
}

bool ContiguityAnalysis::join(Value value, Value other) {
  Contiguity both = joined((*this)[value], (*this)[other], stepOf(value.getType()));
  if (both == (*this)[value])
    return false;
  known[value] = std::move(both);
  return true;
}

void ContiguityAnalysis::copy(ValueRange to, ValueRange from) {
  for (auto [target, source] : llvm::zip_equal(to, from)) {
    Contiguity what = (*this)[source];
    known[target] = std::move(what);
  }
}

void ContiguityAnalysis::visitIf(scf::IfOp branch) {
  visit(*branch.thenBlock());
  if (Block *otherwise = branch.elseBlock()) {
    visit(*otherwise);
    copy(branch.getResults(), branch.thenYield().getOperands());
    for (auto [result, value] :
         llvm::zip_equal(branch.getResults(), branch.elseYield().getOperands()))
      join(result, value);
  }
}

// What is carried starts as what enters the loop and is weakened by what comes back, until that
// takes nothing away: then it holds in every iteration. It ends since knowledge only shrinks.
void ContiguityAnalysis::visitFor(scf::ForOp loop) {
  const Contiguity &lower = (*this)[loop.getLowerBound()], &step = (*this)[loop.getStep()];
  Contiguity induction = Contiguity::unknown(loop.getInductionVar().getType());
  induction.dims[0].divisibility = std::min(lower[0].divisibility, step[0].divisibility);
  induction.nonNegative = lower.nonNegative;
  known[loop.getInductionVar()] = induction;
  copy(loop.getRegionIterArgs(), loop.getInitArgs());
  bool changed = true;
  while (changed) {
    visit(*loop.getBody());
    changed = false;
    for (auto [carried, next] : llvm::zip_equal(loop.getRegionIterArgs(), loop.getYieldedValues()))
      changed |= join(carried, next);
  }
  copy(loop.getResults(), loop.getRegionIterArgs());
}

void ContiguityAnalysis::visitWhile(scf::WhileOp loop) {
  copy(loop.getBeforeArguments(), loop.getInits());
  bool changed = true;
  while (changed) {
    visit(*loop.getBeforeBody());
    copy(loop.getAfterArguments(), loop.getConditionOp().getArgs());
    visit(*loop.getAfterBody());
    changed = false;
    for (auto [carried, next] :
         llvm::zip_equal(loop.getBeforeArguments(), loop.getYieldOp().getOperands()))
      changed |= join(carried, next);
  }
  copy(loop.getResults(), loop.getConditionOp().getArgs());
}

} // namespace sectile
