// Interval arithmetic over the operations that compute indices.
#include "passes/analysis/Intervals.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace sectile {

static unsigned bitsOf(Value value) {
  Type element = tile::elementType(value.getType());
  return element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
}

static Interval widest(Value value) { return Interval::ofBits(bitsOf(value)); }

Interval Intervals::of(Value value) {
  auto [found, isNew] = known.try_emplace(value, widest(value));
  if (!isNew) // a value carried by a loop depends on itself
    return found->second;
  Interval interval = infer(value);
  if (!interval.fits(bitsOf(value)))
    interval = widest(value);
  return known[value] = interval;
}

Interval Intervals::infer(Value value) {
  if (Operation *op = value.getDefiningOp())
    return op->getNumResults() == 1 ? exact(op) : widest(value);
  auto argument = cast<BlockArgument>(value);
  auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
  if (!loop || argument != loop.getInductionVar())
    return widest(value);
  return {of(loop.getLowerBound()).low, of(loop.getUpperBound()).high - 1};
}

Interval Intervals::exact(Operation *op) {
  auto operand = [&](unsigned i) { return of(op->getOperand(i)); };
  return TypeSwitch<Operation *, Interval>(op)
      .Case([&](arith::ConstantOp constant) {
        APInt number;
        if (!matchPattern(constant.getResult(), m_ConstantInt(&number)))
          return widest(op->getResult(0));
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
            tile::HintOp, arith::ExtSIOp>([&](auto) { return operand(0); })
      .Case([&](arith::ExtUIOp extend) {
        Interval from = operand(0);
        return from.low >= 0 ? from
                             : Interval{0, (Interval::Number(1) << bitsOf(extend.getIn())) - 1};
      })
      .Case([&](arith::AddIOp) {
        return Interval{operand(0).low + operand(1).low, operand(0).high + operand(1).high};
      })
      .Case([&](arith::SubIOp) {
        return Interval{operand(0).low - operand(1).high, operand(0).high - operand(1).low};
      })
      .Case([&](arith::MulIOp) {
        Interval a = operand(0), b = operand(1);
        // Products of 64-bit numbers may leave even this.
        if (!a.fits(63) || !b.fits(63))
          return Interval::ofBits(100);
        Interval::Number products[] = {a.low * b.low, a.low * b.high, a.high * b.low,
                                       a.high * b.high};
        return Interval{*std::ranges::min_element(products), *std::ranges::max_element(products)};
      })
      .Case([&](arith::ShLIOp) {
        Interval a = operand(0), b = operand(1);
        if (b.low < 0 || b.high > 31)
          return Interval::ofBits(100);
        return Interval{std::min(a.low, a.low * (Interval::Number(1) << b.high)),
                        std::max(a.high, a.high * (Interval::Number(1) << b.high))};
      })
      .Case([&](arith::TruncIOp) { return operand(0); })
      .Case([&](arith::DivSIOp) {
        Interval a = operand(0), b = operand(1);
        if (b.low < 1)
          return widest(op->getResult(0));
        return Interval{a.low < 0 ? a.low : a.low / b.high,
                        a.high < 0 ? a.high / b.high : a.high / b.low};
      })
      .Case([&](arith::RemSIOp) {
        Interval a = operand(0), b = operand(1);
        if (b.low < 1)
          return widest(op->getResult(0));
        return Interval{a.low < 0 ? std::max(a.low, 1 - b.high) : 0,
                        a.high < 0 ? 0 : std::min(a.high, b.high - 1)};
      })
      .Case<arith::DivUIOp, arith::ShRUIOp, arith::ShRSIOp>([&](auto) {
        Interval a = operand(0);
        return a.low >= 0 ? Interval{0, a.high} : widest(op->getResult(0));
      })
      .Case([&](arith::RemUIOp) {
        Interval b = operand(1);
        return b.low >= 1 ? Interval{0, b.high - 1} : widest(op->getResult(0));
      })
      .Case([&](arith::AndIOp) {
        // A number that is not negative has no bits above its own.
        Interval a = operand(0), b = operand(1);
        if (a.low >= 0 && b.low >= 0)
          return Interval{0, std::min(a.high, b.high)};
        return a.low >= 0   ? Interval{0, a.high}
               : b.low >= 0 ? Interval{0, b.high}
                            : widest(op->getResult(0));
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
      .Default([&](Operation *) { return widest(op->getResult(0)); });
}

} // namespace sectile
