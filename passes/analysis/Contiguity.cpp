// The walk of the contiguity analysis over blocks, branches and loops; the rules per operation are
// in ContiguityRules.cpp.
#include "passes/analysis/Contiguity.h"
#include "ir/tile/Overflow.h"
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
  result.interval = result.place = Interval::ofType(type);
  return result;
}

static Interval joined(const Interval &a, const Interval &b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

std::optional<int64_t> Contiguity::constant() const {
  return interval.low == interval.high ? std::optional(int64_t(interval.low)) : std::nullopt;
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
  result.interval = joined(a.interval, b.interval);
  result.place = joined(a.place, b.place);
  result.excess = std::max(a.excess, b.excess);
  return result;
}

ContiguityAnalysis::ContiguityAnalysis(Operation *root, Certainty certainty)
    : certainty(certainty) {
  // Before anything is visited: what holds of a value must not depend on how often it was.
  if (certainty != Certainty::proven)
    root->walk([&](tile::AssumeOp op) { collect(op.getCondition(), op->getBlock()); });
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
        if (auto end =
                func ? func.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), tile::belowAttr)
                     : IntegerAttr())
          what.interval = what.place = {0, end.getInt() - 1};
        set(argument, std::move(what));
      }
      visit(block);
    }
}

static void raiseToZero(Interval &interval) {
  interval.low = std::max<Interval::Number>(interval.low, 0);
  interval.high = std::max<Interval::Number>(interval.high, 0);
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
  visitRegions(op);
  SmallVector<const Contiguity *, 4> operands;
  for (Value operand : op.getOperands())
    operands.push_back(&(*this)[operand]);
  for (Value result : op.getResults())
    set(result, op.getNumResults() == 1 ? inferContiguity(op, operands, certainty)
                                        : Contiguity::unknown(result.getType()));
  // Where a part of a prefix sum begins.
  if (auto difference = dyn_cast<arith::SubIOp>(op);
      difference && tile::isMarkedToFit(op) && isAtLeast(difference.getLhs(), difference.getRhs()))
    raiseToZero(known[difference.getResult()].place);
}

bool ContiguityAnalysis::isAtLeast(Value sum, Value part) const {
  if (sum == part)
    return true;
  if (auto add = sum.getDefiningOp<arith::AddIOp>())
    return tile::isMarkedToFit(*add) &&
           ((isAtLeast(add.getLhs(), part) && (*this)[add.getRhs()].place.isNonNegative()) ||
            (isAtLeast(add.getRhs(), part) && (*this)[add.getLhs()].place.isNonNegative()));
  auto scan = sum.getDefiningOp<tile::ScanOp>();
  if (!scan || scan.getSources()[0] != part || !(*this)[part].place.isNonNegative())
    return false;
  Operation *by = onlyCombination(scan.getCombiner());
  return isa_and_present<arith::AddIOp>(by) && tile::isMarkedToFit(*by);
}

// Facts about a value hold wherever it does if the promise is made in its own block: every time the
// value is made the promise is, too.
void ContiguityAnalysis::collect(Value promise, Block *block) {
  if (auto both = promise.getDefiningOp<arith::AndIOp>()) {
    collect(both.getLhs(), block);
    collect(both.getRhs(), block);
    return;
  }
  using enum arith::CmpIPredicate;
  auto compare = promise.getDefiningOp<arith::CmpIOp>();
  APInt bound;
  if (!compare || !matchPattern(compare.getRhs(), m_ConstantInt(&bound)))
    return;
  Value value = compare.getLhs();
  arith::CmpIPredicate predicate = compare.getPredicate();
  if ((predicate == sge && !bound.isNegative()) || (predicate == sgt && bound.sge(-1))) {
    if (value.getParentBlock() == block)
      promises[value].nonNegative = true;
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
    int64_t &promised = promises[dividend].divisor;
    promised = std::max(promised, divisor);
  }
}

void ContiguityAnalysis::set(Value value, Contiguity what) {
  if (auto it = promises.find(value); it != promises.end()) {
    int64_t &divisibility = what.dims[0].divisibility;
    divisibility = std::max(divisibility, it->second.divisor);
    if (it->second.nonNegative) {
      raiseToZero(what.interval);
      raiseToZero(what.place);
    }
  }
  known[value] = std::move(what);
}

void ContiguityAnalysis::copy(ValueRange to, ValueRange from) {
  for (auto [target, source] : llvm::zip_equal(to, from))
    set(target, (*this)[source]);
}

void ContiguityAnalysis::setJoined(ValueRange to, ValueRange a, ValueRange b) {
  for (auto [target, x, y] : llvm::zip_equal(to, a, b))
    set(target, joined((*this)[x], (*this)[y], stepOf(target.getType())));
}

// A bound that moves goes to the next of zero and the type's own: numbers that a loop counts would
// otherwise move it in every round.
bool ContiguityAnalysis::weaken(ValueRange carried, ValueRange next) {
  bool changed = false;
  for (auto [value, other] : llvm::zip_equal(carried, next)) {
    const Contiguity before = (*this)[value];
    Contiguity both = joined(before, (*this)[other], stepOf(value.getType()));
    const Interval all = Interval::ofType(value.getType());
    auto widen = [&](Interval &now, const Interval &then) {
      if (now.low < then.low)
        now.low = now.low >= 0 ? 0 : all.low;
      if (now.high > then.high)
        now.high = all.high;
    };
    widen(both.interval, before.interval);
    widen(both.place, before.place);
    set(value, std::move(both));
    changed |= (*this)[value] != before;
  }
  return changed;
}

void ContiguityAnalysis::visitIf(scf::IfOp branch) {
  visit(*branch.thenBlock());
  if (Block *otherwise = branch.elseBlock()) {
    visit(*otherwise);
    setJoined(branch.getResults(), branch.thenYield().getOperands(),
              branch.elseYield().getOperands());
  }
}

// What is carried starts as what enters the loop and is weakened by what comes back, until that
// takes nothing away: then it holds in every iteration. It ends since knowledge only shrinks:
// promises are the same in every round, runs and divisors become divisors of themselves, gaps are
// bounded, and each bound of an interval moves twice at most. What a promise says of a value in the
// loop need not hold of what leaves it.
void ContiguityAnalysis::visitFor(scf::ForOp loop) {
  const Contiguity &lower = (*this)[loop.getLowerBound()], &step = (*this)[loop.getStep()],
                   &upper = (*this)[loop.getUpperBound()];
  Contiguity induction = Contiguity::unknown(loop.getInductionVar().getType());
  induction.dims[0].divisibility = std::min(lower[0].divisibility, step[0].divisibility);
  auto between = [&](const Interval &from, const Interval &to, Interval &all) {
    if (!loop.getUnsignedCmp() || (from.isNonNegative() && to.isNonNegative()))
      all = {from.low, std::max(from.low, to.high - 1)};
  };
  between(lower.interval, upper.interval, induction.interval);
  between(lower.place, upper.place, induction.place);
  set(loop.getInductionVar(), std::move(induction));
  copy(loop.getRegionIterArgs(), loop.getInitArgs());
  do
    visit(*loop.getBody());
  while (weaken(loop.getRegionIterArgs(), loop.getYieldedValues()));
  setJoined(loop.getResults(), loop.getInitArgs(), loop.getYieldedValues());
}

void ContiguityAnalysis::visitWhile(scf::WhileOp loop) {
  copy(loop.getBeforeArguments(), loop.getInits());
  do {
    visit(*loop.getBeforeBody());
    copy(loop.getAfterArguments(), loop.getConditionOp().getArgs());
    visit(*loop.getAfterBody());
  } while (weaken(loop.getBeforeArguments(), loop.getYieldOp().getOperands()));
  copy(loop.getResults(), loop.getConditionOp().getArgs());
}

} // namespace sectile
