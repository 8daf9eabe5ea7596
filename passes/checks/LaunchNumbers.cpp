// Evaluates scalars for one hypothetical launch, and solves backwards: picks operand values for
// which an expression gets a wanted value.
#include "passes/checks/LaunchNumbers.h"
#include "ir/cta/Cta.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>

using namespace mlir;

namespace sectile {

static constexpr unsigned deepestExpression = 12;

LaunchNumbers::LaunchNumbers(func::FuncOp kernel) : kernel(kernel) {
  auto partitions = kernel.getBody().getOps<cta::PartitionOp>();
  if (!partitions.empty())
    parted = *partitions.begin();
}

/// Whether no other partition computes the same for itself: what was computed before all
/// partitions, and what can be done only once.
bool LaunchNumbers::isMadeOnce(Value value) const {
  Operation *op = value.getDefiningOp();
  if (!op)
    return !parted || value.getParentBlock() == parted->getBlock();
  if (op->getNumRegions() == 0 && !isMemoryEffectFree(op) && !isLoad(op))
    return true;
  return !parted || (op->getBlock() == parted->getBlock() && op->isBeforeInBlock(parted));
}

/// Whether a launch can give a value this number.
static bool canBe(Value value, int64_t number) {
  const unsigned bits = bitsOfScalar(value.getType());
  if (isa_and_present<tile::ProgramIdOp, tile::NumProgramsOp>(value.getDefiningOp()))
    return llvm::isUIntN(bits - 1, number);
  return llvm::isUIntN(bits, number) || llvm::isIntN(bits, number);
}

void LaunchNumbers::findMemory() {
  AddressAnalysis addresses(kernel);
  kernel.walk([&](tile::LoadOp load) {
    std::optional<ScalarPlace> place = scalarPlaceOf(load);
    if (place && !(load->getParentOp() == kernel && isMadeOnce(load.getResult())) &&
        !isVolatileLoad(load) && !addresses.mayBeWritten(load))
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
  sure = true;
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
  if (isOfMemory(op)) {
    memory[addressOf(op)] = number;
    return set(value, number);
  }
  if (!isScalarArithmetic(op)) {
    // What a loop gives follows from where it begins.
    auto argument = dyn_cast<BlockArgument>(value);
    auto loop = dyn_cast_if_present<scf::ForOp>(argument ? argument.getOwner()->getParentOp() : op);
    if (loop && value != loop.getInductionVar())
      return choose(
          loop.getInitArgs()[argument ? argument.getArgNumber() - loop.getNumInductionVars()
                                      : cast<OpResult>(value).getResultNumber()],
          number, nesting + 1);
    sure &= isMadeOnce(value) && canBe(value, number);
    return set(value, signExtended(number, bitsOfScalar(value.getType())));
  }
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
        operand(0, -1);
      })
      .Case([&](arith::CmpIOp compare) { chooseComparison(compare, number != 0, nesting); })
      .Case<arith::AndIOp, arith::OrIOp>([&](auto) {
        operand(0, number);
        operand(1, number);
      })
      .Case([&](arith::XOrIOp) {
        const unsigned last = isOpen(0) ? 0 : 1;
        operand(last, number ^ operand(1 - last, 0));
      })
      .Case([&](arith::ShLIOp) { operand(0, number >> (operand(1, 0) & 31)); })
      .Case([&](math::CtPopOp) {
        operand(0, (int64_t(1) << std::clamp<int64_t>(number, 0, 31)) - 1);
      })
      .Case<math::AbsIOp, math::CountLeadingZerosOp, math::CountTrailingZerosOp>(
          [&](auto) { operand(0, number); })
      .Case<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::IndexCastOp,
            arith::IndexCastUIOp, arith::RemSIOp, arith::RemUIOp>(
          [&](auto) { operand(0, number); });
}

void LaunchNumbers::chooseComparison(arith::CmpIOp compare, bool holds, unsigned nesting) {
  using Predicate = arith::CmpIPredicate;
  const Value left = compare.getLhs(), right = compare.getRhs();
  if (!of(left) && !of(right))
    choose(right, reach, nesting + 1);
  const bool leftIsOpen = !of(left);
  const Number known = of(leftIsOpen ? right : left);
  if (!known)
    return;
  int64_t more = 0; // that the right one is than the left one
  switch (compare.getPredicate()) {
  case Predicate::eq:
    more = holds ? 0 : 1;
    break;
  case Predicate::ne:
    more = holds ? 1 : 0;
    break;
  case Predicate::slt:
  case Predicate::sle:
  case Predicate::ult:
  case Predicate::ule:
    more = holds ? reach : -reach;
    break;
  case Predicate::sgt:
  case Predicate::sge:
  case Predicate::ugt:
  case Predicate::uge:
    more = holds ? -reach : reach;
    break;
  }
  choose(leftIsOpen ? left : right, leftIsOpen ? *known - more : *known + more, nesting + 1);
}

void LaunchNumbers::fix(Value value, int64_t number) {
  if (!contiguity)
    contiguity.emplace(kernel);
  const Interval known = (*contiguity)[value].place;
  sure = false;
  fixed[indexOf(value)] = true;
  set(value, int64_t(std::clamp<Interval::Number>(number, known.low, known.high)));
}

} // namespace sectile
