// Evaluates scalars for one run, and chooses what the launch leaves open.
#include "passes/checks/LaunchNumbers.h"
#include "ir/cta/Cta.h"
#include "passes/analysis/Blocks.h"
#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>

using namespace mlir;

namespace sectile {

static bool isScalar(Type type) { return type.isIntOrIndexOrFloat() || isa<tile::PtrType>(type); }

LaunchNumbers::LaunchNumbers(func::FuncOp kernel, bool isParted) : kernel(kernel) {
  if (isParted)
    addresses.emplace(kernel);
}

bool LaunchNumbers::add(Value value) {
  if (!value || !isScalar(value.getType()) || !indices.try_emplace(value, indices.size()).second)
    return false;
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumRegions() != 0 || !llvm::all_of(op->getOperandTypes(), isScalar))
    return true;
  // What memory holds is the same to all where the kernel never changes it.
  const bool isSame = isLoad(op) ? addresses && !isVolatileLoad(op) && !addresses->mayBeWritten(op)
                                 : isMemoryEffectFree(op);
  if (!isSame)
    return true;
  using Equivalence = OperationEquivalence;
  auto same = llvm::find_if(different, [&](Operation *other) {
    return Equivalence::isEquivalentTo(op, other, Equivalence::ignoreValueEquivalence, nullptr,
                                       Equivalence::IgnoreLocations |
                                           Equivalence::IgnoreDiscardableAttrs);
  });
  if (same == different.end())
    same = different.insert(same, op);
  kinds[op] = *same;
  return true;
}

void LaunchNumbers::begin() {
  scalars.assign(indices.size(), std::nullopt);
  expressions.clear();
  numbered.clear();
  choices = 1;
}

void LaunchNumbers::forget(ArrayRef<unsigned> values) {
  for (unsigned value : values)
    scalars[value].reset();
}

std::optional<Scalar> LaunchNumbers::scalarOf(Value value) {
  auto known = indices.find(value);
  if (known == indices.end())
    return std::nullopt;
  std::optional<Scalar> &scalar = scalars[known->second];
  if (scalar)
    return scalar;
  Operation *op = value.getDefiningOp();
  if (op ? isa<scf::ForOp, scf::WhileOp, scf::IfOp>(op)
         : value.getParentRegion() != &kernel.getBody())
    return std::nullopt;
  SmallVector<Scalar, 3> operands;
  auto place = numbered.end();
  if (isExpression(op)) {
    SmallVector<Number, 3> numbers;
    for (Value operand : op->getOperands()) {
      std::optional<Scalar> known = scalarOf(operand);
      if (!known)
        return std::nullopt;
      operands.push_back(*known);
      numbers.push_back(known->isOpen ? std::nullopt : Number(known->number));
    }
    if (isScalarArithmetic(op))
      if (Number number = evaluate(op, numbers))
        return scalar = Scalar{false, *number};
    bool isNew;
    const unsigned result = cast<OpResult>(value).getResultNumber();
    std::tie(place, isNew) =
        numbered.try_emplace({kinds[op], result, operands}, expressions.size());
    if (!isNew)
      return scalar = Scalar{true, place->second};
  }
  expressions.push_back({value, std::move(operands)});
  return scalar = Scalar{true, int64_t(expressions.size()) - 1};
}

Number LaunchNumbers::of(Scalar scalar) {
  if (!scalar.isOpen)
    return scalar.number;
  Expression &expression = expressions[scalar.number];
  Operation *op = expression.value.getDefiningOp();
  if (!expression.number && expression.openSince != choices && isScalarArithmetic(op)) {
    SmallVector<Number, 3> numbers;
    for (Scalar operand : expression.operands)
      numbers.push_back(of(operand));
    expression.number = evaluate(op, numbers);
    expression.openSince = choices;
  }
  return expression.number;
}

Number LaunchNumbers::of(Value value) {
  std::optional<Scalar> scalar = scalarOf(value);
  return scalar ? of(*scalar) : std::nullopt;
}

SmallVector<Number> LaunchNumbers::of(ValueRange values) {
  return llvm::map_to_vector(values, [&](Value value) { return of(value); });
}

void LaunchNumbers::set(Value value, int64_t number) {
  if (auto known = indices.find(value); known != indices.end())
    scalars[known->second] = Scalar{false, number};
}

void LaunchNumbers::set(ValueRange values, ValueRange from) {
  const auto now = llvm::map_to_vector(from, [&](Value value) { return scalarOf(value); });
  for (auto [value, scalar] : llvm::zip_equal(values, now))
    if (auto known = indices.find(value); known != indices.end())
      scalars[known->second] = scalar;
}

Number LaunchNumbers::tripsOf(scf::ForOp loop) {
  const Number lower = of(loop.getLowerBound()), upper = of(loop.getUpperBound()),
               step = of(loop.getStep());
  if (!lower || !upper || !step || *step == 0)
    return std::nullopt;
  const unsigned bits = bitsOfScalar(loop.getInductionVar().getType());
  auto less = loop.getUnsignedCmp() ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
  if (!compare(less, *lower, *upper, bits))
    return 0;
  const uint64_t distance = zeroExtended(int64_t(uint64_t(*upper) - uint64_t(*lower)), bits);
  constexpr uint64_t most = std::numeric_limits<int64_t>::max() - 1;
  return int64_t(std::min((distance - 1) / zeroExtended(*step, bits), most)) + 1;
}

void LaunchNumbers::set(Expression &expression, int64_t number) {
  ++choices;
  expression.isChosen = true;
  const unsigned bits = bitsOfScalar(expression.value.getType());
  expression.number = signExtended(number, bits);
  if (bits == 1)
    return;
  // Passes may have left out what none of the numbers needs that the value can be.
  if (!contiguity)
    contiguity.emplace(kernel);
  const Interval known = (*contiguity)[expression.value].place;
  expression.number =
      int64_t(std::clamp<Interval::Number>(*expression.number, known.low, known.high));
}

void LaunchNumbers::fix(Value value, int64_t number) {
  std::optional<Scalar> scalar = scalarOf(value);
  if (!scalar || !scalar->isOpen)
    return;
  for (Expression &expression : expressions)
    if (!expression.isChosen) {
      expression.number.reset();
      expression.openSince = 0;
    }
  set(expressions[scalar->number], number);
}

void LaunchNumbers::choose(Value value, int64_t number) {
  if (std::optional<Scalar> scalar = scalarOf(value))
    choose(*scalar, number);
}

void LaunchNumbers::choose(Scalar scalar, int64_t number) {
  if (of(scalar))
    return;
  Expression &expression = expressions[scalar.number];
  Operation *op = expression.value.getDefiningOp();
  if (isScalarArithmetic(op))
    chooseOperands(op, expression.operands, number);
  if (!of(scalar))
    set(expression, number);
}

void LaunchNumbers::chooseOperands(Operation *op, ArrayRef<Scalar> operands, int64_t number) {
  auto operand = [&](unsigned i, int64_t otherwise) {
    choose(operands[i], otherwise);
    return *of(operands[i]);
  };
  // Of two operands the one that is chosen last, and one that says what the other is.
  auto last = [&] { return of(operands[0]) ? 1u : 0u; };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](arith::AddIOp) {
        const unsigned i = last();
        operand(i, number - operand(1 - i, 0));
      })
      .Case([&](arith::SubIOp) {
        if (last() == 0)
          operand(0, number + operand(1, 0));
        else
          operand(1, operand(0, 0) - number);
      })
      .Case([&](arith::MulIOp) {
        const unsigned i = last();
        const int64_t factor = operand(1 - i, 1);
        operand(i, factor ? number / factor : 0);
      })
      .Case<arith::DivSIOp, arith::DivUIOp, arith::CeilDivSIOp, arith::CeilDivUIOp,
            arith::FloorDivSIOp>([&](auto) {
        if (last() == 0)
          operand(0, number * operand(1, 1));
      })
      .Case<arith::ShRUIOp, arith::ShRSIOp>([&](auto) {
        if (last() == 0)
          operand(0, number << (operand(1, 0) & 31));
      })
      // Where both are open nothing is said of either: what bounds one number is no reason for the
      // next ones to be small.
      .Case<arith::MinSIOp, arith::MinUIOp, arith::MaxSIOp, arith::MaxUIOp>([&](auto) {
        const unsigned i = last();
        if (of(operands[1 - i]))
          operand(i, number);
      })
      .Case([&](arith::SelectOp) {
        const Number first = of(operands[1]), second = of(operands[2]);
        if (first || second)
          operand(0, (first ? first == number : second != number) ? -1 : 0);
        if (const Number isFirst = of(operands[0]))
          operand(*isFirst ? 1 : 2, number);
      })
      .Case([&](arith::CmpIOp op) {
        const unsigned i = last(), bits = bitsOfScalar(op.getLhs().getType());
        if (const Number other = of(operands[1 - i]))
          for (uint64_t more : {0, 1, -1}) {
            const int64_t one = int64_t(uint64_t(*other) + more);
            if (compare(op.getPredicate(), i == 0 ? one : *other, i == 0 ? *other : one, bits) ==
                (number != 0)) {
              operand(i, one);
              break;
            }
          }
      })
      .Case<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::IndexCastOp,
            arith::IndexCastUIOp>([&](auto) { operand(0, number); });
}

bool LaunchNumbers::decide(Value condition, llvm::function_ref<bool()> comesOut) {
  return decide(*scalarOf(condition), comesOut);
}

bool LaunchNumbers::decide(Scalar condition, llvm::function_ref<bool()> comesOut) {
  if (Number number = of(condition))
    return *number;
  Expression &expression = expressions[condition.number];
  Operation *op = expression.value.getDefiningOp();
  if (isScalarArithmetic(op))
    for (auto [value, operand] : llvm::zip_equal(op->getOperands(), expression.operands))
      if (value.getType().isInteger(1))
        decide(operand, comesOut);
  if (!of(condition))
    choose(condition, comesOut() ? -1 : 0);
  return *of(condition);
}

} // namespace sectile
