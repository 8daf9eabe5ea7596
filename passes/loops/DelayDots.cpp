// Has a loop do a dot, or promote a dot's result, an iteration later, where it runs beside other
// work: the values that this needs are carried to the next iteration, and the last of them is done
// after the loop.
#include "passes/loops/DelayDots.h"
#include "ir/tile/Overflow.h"
#include "mlir/IR/IRMapping.h"
#include "passes/loops/FetchAhead.h"
#include "passes/loops/LoopHints.h"

using namespace mlir;

namespace sectile {

/// Has a loop carry values of its body to the next iteration; the first one gets zeros. Gives that
/// loop, whose body's arguments are others.
static scf::ForOp carryOn(IRRewriter &builder, scf::ForOp loop, MutableArrayRef<Value> values) {
  SmallVector<Value> zeros;
  for (Value value : values)
    zeros.push_back(
        arith::ConstantOp::create(builder, loop.getLoc(), builder.getZeroAttr(value.getType())));
  auto yielded = [&](OpBuilder &, Location, ArrayRef<BlockArgument> added) {
    for (Value &value : values)
      if (auto argument = dyn_cast<BlockArgument>(value))
        value = added.front().getOwner()->getArgument(argument.getArgNumber());
    return llvm::to_vector_of<Value>(values);
  };
  return cast<scf::ForOp>(*loop.replaceWithAdditionalYields(
      builder, zeros, /*replaceInitOperandUsesInLoop=*/false, yielded));
}

void delayPromotion(scf::ForOp loop, const DelayedPromotion &promotion) {
  IRRewriter builder(loop);
  cta::DotOp dot = promotion.dot;
  SmallVector<Value> later{dot.getResult()};
  llvm::append_range(later, promotion.others);
  scf::ForOp longer = carryOn(builder, loop, later);
  auto promote = [&](Value sums, ValueRange values) {
    IRMapping map;
    map.map(later, values);
    map.map(longer.getRegionIterArg(promotion.number), sums);
    for (Operation *op : promotion.ops)
      builder.clone(*op, map);
    return map.lookup(promotion.ops.back()->getResult(0));
  };
  Operation *terminator = longer.getBody()->getTerminator();
  builder.setInsertionPoint(terminator);
  terminator->setOperand(promotion.number,
                         promote(longer.getRegionIterArg(promotion.number),
                                 longer.getRegionIterArgs().take_back(later.size())));
  builder.setInsertionPointAfter(longer);
  Value result = longer.getResult(promotion.number);
  Value last = promote(result, longer.getResults().take_back(later.size()));
  result.replaceAllUsesExcept(last, last.getDefiningOp());
  // Results change places without moves then. Where one goes around the loop, ptxas (12.8
  // to 13.0) waits for the next dot before it reads it.
  if (!longer->hasAttr(hints::unroll))
    longer->setAttr(hints::unroll, builder.getI32IntegerAttr(4));
}

/// Adds the product of a and of what is b in the iteration `of`, or zeros unless `when`.
static Value addAt(OpBuilder &builder, const DelayedDot &delayed, Value of, Value when, Value iv,
                   Value a, Value sums) {
  IRMapping map;
  map.map(iv, of);
  for (Operation *op : delayed.operand) {
    Operation *clone = builder.clone(*op, map);
    auto load = dyn_cast<tile::LoadBlockOp>(clone);
    if (!load || !when)
      continue;
    load->setAttr(delayedAttr, builder.getUnitAttr());
    if (load.getWhen()) {
      OpBuilder ahead(load);
      when = arith::AndIOp::create(ahead, load.getLoc(), load.getWhen(), when);
    }
    load.getWhenMutable().assign(when);
  }
  cta::DotOp dot = delayed.dot;
  map.map(dot.getA(), a);
  map.map(dot.getAcc(), sums);
  return builder.clone(*dot, map)->getResult(0);
}

/// A loop of the last iteration of another one, if that has any, which carries on its sums.
static scf::ForOp lastIteration(OpBuilder &builder, scf::ForOp loop, unsigned number) {
  const Location loc = loop.getLoc();
  Value step = loop.getStep(), first = loop.getLowerBound(), end = loop.getUpperBound();
  Value one = arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(step.getType(), 1));
  Value distance = tile::createToFit<arith::SubIOp>(builder, loc, end, first);
  Value before = tile::createToFit<arith::SubIOp>(builder, loc, distance, one);
  Value steps = builder.createOrFold<arith::DivSIOp>(loc, before, step);
  Value way = tile::createToFit<arith::MulIOp>(builder, loc, steps, step);
  Value last = arith::MaxSIOp::create(
      builder, loc, tile::createToFit<arith::AddIOp>(builder, loc, first, way), first);
  auto found = scf::ForOp::create(builder, loc, last, end, step, loop.getResult(number));
  for (StringRef hint : {hints::warpSpecialize, cta::stagesAttr})
    if (Attribute asked = loop->getAttr(hint))
      found->setAttr(hint, asked);
  found->setAttr(onceAttr, builder.getUnitAttr());
  return found;
}

void delayDot(scf::ForOp loop, const DelayedDot &delayed) {
  IRRewriter builder(loop);
  cta::DotOp dot = delayed.dot;
  const Location loc = dot.getLoc();
  Value a = dot.getA();
  scf::ForOp longer = carryOn(builder, loop, a);
  const unsigned number = delayed.sums.number;
  Value iv = longer.getInductionVar(), sums = longer.getRegionIterArg(number);

  builder.setInsertionPointAfter(delayed.after);
  Value isLater =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, iv, longer.getLowerBound());
  Value before = arith::MaxSIOp::create(
      builder, loc, tile::createToFit<arith::SubIOp>(builder, loc, iv, longer.getStep()),
      longer.getLowerBound());
  Value added =
      addAt(builder, delayed, before, isLater, iv, longer.getRegionIterArgs().back(), sums);
  for (Operation *op : delayed.sums.rescaling)
    op->moveBefore(dot);
  sums.replaceAllUsesExcept(added, added.getDefiningOp());
  longer.getBody()->getTerminator()->setOperand(number, dot.getAcc());

  builder.setInsertionPointAfter(longer);
  scf::ForOp last = lastIteration(builder, longer, number);
  longer.getResult(number).replaceAllUsesExcept(last.getResult(0), last);
  builder.setInsertionPointToStart(last.getBody());
  Value whole = addAt(builder, delayed, last.getInductionVar(), {}, iv, longer.getResults().back(),
                      last.getRegionIterArg(0));
  scf::YieldOp::create(builder, loc, whole);
  dot.erase();
}

} // namespace sectile
