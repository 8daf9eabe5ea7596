// Computes with the numbers of a launch, and backwards: what an expression's operands have to be.
#include "passes/analysis/LaunchNumbers.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>

using namespace mlir;

namespace sectile {

static constexpr unsigned deepestExpression = 12;

void LaunchNumbers::findMemory() {
  AddressAnalysis addresses(kernel);
  kernel.walk([&](tile::LoadOp load) {
    std::optional<ScalarPlace> place = scalarPlaceOf(load);
    if (place && load->getParentOp() != kernel && !isVolatileLoad(load) &&
        !addresses.mayBeWritten(load))
      places[load] = std::move(*place);
  });
}

bool LaunchNumbers::readsMemory(Value value, bool carry) const {
  if (places.empty())
    return false;
  llvm::SetVector<Value> sources;
  sources.insert(value);
  for (size_t i = 0; i < sources.size(); ++i) {
    const Value source = sources[i];
    Operation *op = source.getDefiningOp();
    if (isOfMemory(op))
      return true;
    if (isScalarArithmetic(op))
      sources.insert_range(op->getOperands());
    auto argument = dyn_cast<BlockArgument>(source);
    auto loop = dyn_cast_if_present<scf::ForOp>(argument ? argument.getOwner()->getParentOp() : op);
    if (!loop || !carry || source == loop.getInductionVar())
      continue;
    const unsigned number =
        argument ? argument.getArgNumber() - 1 : cast<OpResult>(source).getResultNumber();
    sources.insert(loop.getInitArgs()[number]);
    sources.insert(loop.getYieldedValues()[number]);
  }
  return false;
}

bool LaunchNumbers::add(Value value) {
  return value && value.getType().isIntOrIndex() &&
         indices.try_emplace(value, indices.size()).second;
}

void LaunchNumbers::begin() {
  numbers.assign(indices.size(), std::nullopt);
  fixed.assign(indices.size(), false);
  openSince.assign(indices.size(), 0);
  memory.clear();
  choices = 1;
}

void LaunchNumbers::forget(ArrayRef<unsigned> values) {
  for (unsigned value : values) {
    numbers[value].reset();
    fixed[value] = false;
  }
  ++choices;
}

Number LaunchNumbers::of(Value value) {
  auto known = indices.find(value);
  if (known == indices.end())
    return std::nullopt;
  const unsigned index = known->second;
  Operation *op = value.getDefiningOp();
  if (!numbers[index] && isOfMemory(op))
    if (auto found = memory.find(addressOf(op)); found != memory.end())
      numbers[index] = found->second;
  if (numbers[index] || openSince[index] == choices || !isScalarArithmetic(op))
    return numbers[index];
  SmallVector<Number, 3> operands;
  for (Value operand : op->getOperands())
    operands.push_back(of(operand));
  numbers[index] = evaluate(op, operands);
  openSince[index] = choices;
  return numbers[index];
}

SmallVector<Number> LaunchNumbers::of(ValueRange values) {
  return llvm::map_to_vector(values, [&](Value value) { return of(value); });
}

void LaunchNumbers::set(Value value, Number number) {
  if (auto known = indices.find(value); known != indices.end())
    numbers[known->second] = number;
  ++choices;
}

void LaunchNumbers::set(ValueRange values, ValueRange from) {
  for (auto [value, number] : llvm::zip_equal(values, of(from)))
    set(value, number);
}

/// Where a load reads: an argument, and how many elements from it.
std::pair<void *, int64_t> LaunchNumbers::addressOf(Operation *load) {
  const ScalarPlace &place = places.find(load)->second;
  int64_t element = 0;
  for (Value step : place.steps) {
    choose(step, 0);
    element += of(step).value_or(0);
  }
  return {place.argument.getAsOpaquePointer(), element};
}

void LaunchNumbers::choose(Value value, int64_t number, unsigned nesting) {
  if (of(value) || nesting == deepestExpression)
    return;
  Operation *op = value.getDefiningOp();
  if (isOfMemory(op))
    memory[addressOf(op)] = number;
  if (!isScalarArithmetic(op))
    return set(value, number);
  auto isOpen = [&](unsigned i) { return !of(op->getOperand(i)); };
  auto operand = [&](unsigned i, int64_t otherwise) {
    choose(op->getOperand(i), otherwise, nesting + 1);
    return of(op->getOperand(i)).value_or(otherwise);
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](arith::AddIOp) {
        const unsigned last = isOpen(0) ? 0 : 1;
        operand(last, number - operand(1 - last, 0));
      })
      .Case([&](arith::SubIOp) {
        if (isOpen(0))
          operand(0, number + operand(1, 0));
        else
          operand(1, operand(0, 0) - number);
      })
      .Case([&](arith::MulIOp) {
        const unsigned last = isOpen(0) ? 0 : 1;
        const int64_t factor = operand(1 - last, 1);
        operand(last, factor ? number / factor : 0);
      })
      .Case<arith::DivSIOp, arith::DivUIOp, arith::CeilDivSIOp, arith::CeilDivUIOp,
            arith::FloorDivSIOp>([&](auto) { operand(0, number * operand(1, 1)); })
      .Case<arith::ShRUIOp, arith::ShRSIOp>(
          [&](auto) { operand(0, number << (operand(1, 0) & 31)); })
      .Case<arith::MinSIOp, arith::MinUIOp>([&](auto) {
        // What bounds a number of memory is no reason for the next ones to be small.
        auto reads = [&](unsigned i) { return readsMemory(op->getOperand(i), /*carry=*/false); };
        constexpr int64_t most = 1 << 28;
        for (unsigned i : {0, 1})
          operand(i, reads(1 - i) && !reads(i) ? std::max(number, most) : number);
      })
      .Case<arith::MaxSIOp, arith::MaxUIOp>([&](auto) {
        operand(0, number);
        operand(1, number);
      })
      .Case([&](arith::SelectOp) {
        operand(1, number);
        operand(2, number);
      })
      .Case<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::IndexCastOp,
            arith::IndexCastUIOp, arith::RemSIOp, arith::RemUIOp>(
          [&](auto) { operand(0, number); });
}

void LaunchNumbers::fix(Value value, int64_t number) {
  if (!contiguity)
    contiguity.emplace(kernel);
  const Interval known = (*contiguity)[value].place;
  fixed[indexOf(value)] = true;
  set(value, int64_t(std::clamp<Interval::Number>(number, known.low, known.high)));
}

} // namespace sectile
