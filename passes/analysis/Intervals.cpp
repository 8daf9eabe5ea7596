// How small and how large the results of the operations that compute indices can be.
#include "passes/analysis/Intervals.h"
#include "ir/cta/Cta.h"
#include "ir/tile/Tile.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace sectile {

static unsigned bitsOf(Type type) {
  Type element = tile::elementType(type);
  return element.isInteger() ? element.getIntOrFloatBitWidth() : 64;
}

Interval Interval::ofType(Type type) { return ofBits(bitsOf(type)); }

/// All numbers of as many bits as the greatest of these, none of which is negative.
static Interval ofBitsBelow(Interval::Number greatest) {
  Interval::Number all = 1;
  while (all <= greatest)
    all *= 2;
  return {0, all - 1};
}

Operation *onlyCombination(Region &combiner) {
  Block &block = combiner.front();
  if (block.getNumArguments() != 2 || !llvm::hasNItems(block, 2))
    return nullptr;
  Operation &only = block.front();
  Value a = block.getArgument(0), b = block.getArgument(1);
  const bool isOfBoth =
      only.getNumOperands() == 2 && ((only.getOperand(0) == a && only.getOperand(1) == b) ||
                                     (only.getOperand(0) == b && only.getOperand(1) == a));
  return isOfBoth && block.back().getOperand(0).getDefiningOp() == &only ? &only : nullptr;
}

/// What a reduction or a scan makes of elements in an interval, where it adds or chooses.
template <class Op> static std::optional<Interval> combinedInterval(Op combine, Interval element) {
  Operation *by = onlyCombination(combine.getCombiner());
  if (isa_and_present<arith::MinSIOp, arith::MaxSIOp>(by))
    return element;
  if (!isa_and_present<arith::AddIOp>(by))
    return std::nullopt;
  // One element at least, and all of them at most.
  const Interval::Number count =
      cast<RankedTensorType>(combine.getSources()[0].getType()).getDimSize(combine.getAxis());
  return Interval{std::min(element.low, count * element.low),
                  std::max(element.high, count * element.high)};
}

Interval exactInterval(Operation &op, ArrayRef<Interval> operands) {
  const Interval widest = Interval::ofType(op.getResult(0).getType());
  // More than any type holds: products of 64-bit numbers may leave even an Interval.
  const Interval boundless = Interval::ofBits(100);
  auto operand = [&](unsigned i) { return operands[i]; };
  return TypeSwitch<Operation *, Interval>(&op)
      .Case([&](arith::ConstantOp constant) {
        APInt number;
        if (!matchPattern(constant.getResult(), m_ConstantInt(&number)) ||
            number.getBitWidth() > 64)
          return widest;
        return Interval{number.getSExtValue(), number.getSExtValue()};
      })
      .Case([&](tile::ProgramIdOp id) {
        return Interval{0, id.getAxis() == 0 ? 0x7fff'fffe : 0xfffe};
      })
      .Case([&](tile::NumProgramsOp n) {
        return Interval{1, n.getAxis() == 0 ? 0x7fff'ffff : 0xffff};
      })
      .Case([&](tile::ArangeOp range) {
        int64_t start = int32_t(range.getStart());
        return Interval{start, start + range.getType().getShape()[0] - 1};
      })
      .Case<tile::SplatOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp, tile::PermuteOp,
            tile::HintOp, cta::ConvertLayoutOp, cta::OfBlockOp, arith::ExtSIOp, arith::TruncIOp,
            arith::IndexCastOp>([&](auto) { return operand(0); })
      .Case([&](arith::ExtUIOp extend) {
        Interval from = operand(0);
        return from.low >= 0
                   ? from
                   : Interval{0, (Interval::Number(1) << bitsOf(extend.getIn().getType())) - 1};
      })
      .Case([&](arith::AddIOp) {
        return Interval{operand(0).low + operand(1).low, operand(0).high + operand(1).high};
      })
      .Case([&](arith::SubIOp) {
        return Interval{operand(0).low - operand(1).high, operand(0).high - operand(1).low};
      })
      .Case([&](arith::MulIOp) {
        Interval a = operand(0), b = operand(1);
        if (!a.fits(63) || !b.fits(63)) // their product may not fit an Interval; its sign is known
          return Interval{a.isNonNegative() && b.isNonNegative() ? 0 : boundless.low,
                          boundless.high};
        Interval::Number products[] = {a.low * b.low, a.low * b.high, a.high * b.low,
                                       a.high * b.high};
        return Interval{*std::ranges::min_element(products), *std::ranges::max_element(products)};
      })
      .Case([&](arith::ShLIOp) {
        Interval a = operand(0), b = operand(1);
        if (b.low < 0 || b.high > 31)
          return boundless;
        return Interval{std::min(a.low, a.low * (Interval::Number(1) << b.high)),
                        std::max(a.high, a.high * (Interval::Number(1) << b.high))};
      })
      // Division by zero is undefined, so that a divisor from zero on is from one on.
      .Case<arith::DivSIOp, arith::FloorDivSIOp>([&](auto) {
        Interval a = operand(0), b = operand(1);
        if (b.low < 0)
          return widest;
        Interval::Number least = std::max<Interval::Number>(b.low, 1),
                         most = std::max<Interval::Number>(b.high, 1);
        return Interval{a.low < 0 ? a.low : a.low / most,
                        a.high < 0 ? a.high / most : a.high / least};
      })
      .Case([&](arith::RemSIOp) {
        Interval a = operand(0), b = operand(1);
        Interval result{std::min<Interval::Number>(a.low, 0),
                        std::max<Interval::Number>(a.high, 0)};
        if (b.low >= 0 && b.high >= 1) {
          result.low = std::max(result.low, 1 - b.high);
          result.high = std::min(result.high, b.high - 1);
        }
        return result;
      })
      .Case<arith::DivUIOp, arith::ShRUIOp>([&](auto) {
        Interval a = operand(0);
        return a.low >= 0 ? Interval{0, a.high} : widest;
      })
      .Case([&](arith::ShRSIOp) {
        Interval a = operand(0);
        return Interval{std::min<Interval::Number>(a.low, 0),
                        std::max<Interval::Number>(a.high, -1)};
      })
      .Case([&](arith::RemUIOp) {
        Interval a = operand(0), b = operand(1);
        if (b.low >= 0 && b.high >= 1)
          return Interval{0, a.low >= 0 ? std::min(a.high, b.high - 1) : b.high - 1};
        return a.low >= 0 ? Interval{0, a.high} : widest;
      })
      .Case([&](arith::AndIOp) {
        // A number that is not negative has no bits above its own.
        Interval a = operand(0), b = operand(1);
        if (a.low >= 0 && b.low >= 0)
          return Interval{0, std::min(a.high, b.high)};
        return a.low >= 0 ? Interval{0, a.high} : b.low >= 0 ? Interval{0, b.high} : widest;
      })
      .Case<arith::OrIOp, arith::XOrIOp>([&](auto) {
        Interval a = operand(0), b = operand(1);
        return a.low >= 0 && b.low >= 0 ? ofBitsBelow(std::max(a.high, b.high)) : widest;
      })
      .Case([&](arith::MinUIOp) {
        // Unsigned, a negative number is greater than all that are not.
        Interval a = operand(0), b = operand(1);
        if (a.low >= 0 && b.low >= 0)
          return Interval{std::min(a.low, b.low), std::min(a.high, b.high)};
        return a.low >= 0 ? Interval{0, a.high} : b.low >= 0 ? Interval{0, b.high} : widest;
      })
      .Case([&](arith::MaxUIOp) {
        Interval a = operand(0), b = operand(1);
        return a.low >= 0 && b.low >= 0 ? Interval{std::max(a.low, b.low), std::max(a.high, b.high)}
                                        : widest;
      })
      .Case([&](arith::MinSIOp) {
        return Interval{std::min(operand(0).low, operand(1).low),
                        std::min(operand(0).high, operand(1).high)};
      })
      .Case([&](arith::MaxSIOp) {
        return Interval{std::max(operand(0).low, operand(1).low),
                        std::max(operand(0).high, operand(1).high)};
      })
      .Case([&](arith::SelectOp) {
        return Interval{std::min(operand(1).low, operand(2).low),
                        std::max(operand(1).high, operand(2).high)};
      })
      .Case<tile::ReduceOp, tile::ScanOp>(
          [&](auto combine) { return combinedInterval(combine, operand(0)).value_or(widest); })
      .Default([&](Operation *) { return widest; });
}

} // namespace sectile
