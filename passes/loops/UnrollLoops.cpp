// Repeats the bodies of loops that ask for it. It is the last pass: what others found out about a
// loop (which loads are ahead, where barriers go) holds for any number of its iterations in a row.
//
// MLIR's loopUnrollByFactor does not serve: it counts iterations as if the upper bound were never
// below the lower, and bounds are the user's numbers. Of a loop from 7 to 0 by 3, which does
// nothing, the rest that it leaves of groups of two would do an iteration at -3.
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/loops/LoopHints.h"

namespace sectile {
#define GEN_PASS_DEF_UNROLLLOOPS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

Value number(OpBuilder &builder, Location loc, Type type, int64_t value) {
  return arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, value));
}

/// A clone of the loop's body with these values for its induction variable and what it carries;
/// gives what it yields.
SmallVector<Value> cloneBody(OpBuilder &builder, scf::ForOp loop, Value induction,
                             ValueRange carried) {
  IRMapping map;
  map.map(loop.getInductionVar(), induction);
  map.map(loop.getRegionIterArgs(), carried);
  for (Operation &op : loop.getBody()->without_terminator())
    builder.clone(op, map);
  SmallVector<Value> yielded;
  for (Value value : loop.getYieldedValues())
    yielded.push_back(map.lookupOrDefault(value));
  return yielded;
}

/// The longest step of which `factor` fit in the type of the loop's counter.
APInt longestStep(scf::ForOp loop, int64_t factor) {
  Type type = loop.getInductionVar().getType();
  const unsigned bits =
      type.isIndex() ? IndexType::kInternalStorageBitWidth : type.getIntOrFloatBitWidth();
  return (loop.getUnsignedCmp() ? APInt::getMaxValue(bits) : APInt::getSignedMaxValue(bits))
      .udiv(factor);
}

/// Whole groups of `factor` iterations in one loop, the rest in a second one.
void unroll(scf::ForOp loop, int64_t factor) {
  OpBuilder builder(loop);
  Location loc = loop.getLoc();
  Type type = loop.getInductionVar().getType();
  Value lower = loop.getLowerBound(), upper = loop.getUpperBound(), step = loop.getStep();
  auto constant = [&](int64_t value) { return number(builder, loc, type, value); };
  // The distance between the bounds fits in the type without its sign, whatever they are.
  auto less = loop.getUnsignedCmp() ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
  Value one = constant(1);
  Value any = builder.createOrFold<arith::CmpIOp>(loc, less, lower, upper);
  Value distance = builder.createOrFold<arith::SubIOp>(loc, upper, lower);
  Value last = builder.createOrFold<arith::SubIOp>(loc, distance, one);
  Value steps = builder.createOrFold<arith::DivUIOp>(loc, last, step);
  Value trips = builder.createOrFold<arith::AddIOp>(loc, steps, one);
  Value whole = builder.createOrFold<arith::DivUIOp>(loc, trips, constant(factor));
  // A loop whose stride passes the type's end would not end: its iterations stay single.
  Value most = arith::ConstantOp::create(builder, loc,
                                         builder.getIntegerAttr(type, longestStep(loop, factor)));
  Value fits = builder.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::ule, step, most);
  Value inGroups = builder.createOrFold<arith::AndIOp>(loc, any, fits);
  Value groups = builder.createOrFold<arith::SelectOp>(loc, inGroups, whole, constant(0));
  Value stride = builder.createOrFold<arith::MulIOp>(loc, step, constant(factor));
  Value length = builder.createOrFold<arith::MulIOp>(loc, groups, stride);
  Value middle = builder.createOrFold<arith::AddIOp>(loc, lower, length);

  auto unrolled = scf::ForOp::create(builder, loc, lower, middle, stride, loop.getInitArgs(),
                                     [](OpBuilder &, Location, Value, ValueRange) {});
  OpBuilder body = OpBuilder::atBlockEnd(unrolled.getBody());
  SmallVector<Value> carried(unrolled.getRegionIterArgs());
  for (int64_t i = 0; i < factor; ++i) {
    Value induction = unrolled.getInductionVar();
    if (i) {
      Value ahead = body.createOrFold<arith::MulIOp>(loc, step, number(body, loc, type, i));
      induction = arith::AddIOp::create(body, loc, induction, ahead);
    }
    carried = cloneBody(body, loop, induction, carried);
  }
  scf::YieldOp::create(body, loc, carried);
  unrolled.setUnsignedCmp(loop.getUnsignedCmp());
  unrolled->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  unrolled->setAttr(hints::unroll, builder.getI32IntegerAttr(1));
  if (auto known = constantInt(trips); known && *known % factor == 0) {
    loop.replaceAllUsesWith(unrolled.getResults());
    loop.erase();
    return;
  }
  loop.getLowerBoundMutable().assign(middle);
  loop.getInitArgsMutable().assign(unrolled.getResults());
  loop->setAttr(hints::unroll, builder.getI32IntegerAttr(1));
}

/// Reports hints that nothing acts on.
void reportIgnored(scf::ForOp loop) {
  static constexpr std::pair<StringLiteral, const char *> ignored[] = {
      {hints::flatten, "flatten: nested loops stay nested"},
      {hints::warpSpecialize, "warp_specialize: none of this loop's loads are made by the engine "
                              "for dots that add to what the loop carries"},
      {hints::oneAccumulator, "disallow_acc_multi_buffer: accumulators are in registers, and none "
                              "of this loop would have a second copy"}};
  for (auto [name, what] : ignored)
    if (loop->hasAttr(name) && loop->getAttr(name) != BoolAttr::get(loop.getContext(), false))
      loop.emitRemark("a hint has no effect: ") << what;
}

// Far more than any kernel gains from.
constexpr int64_t mostOperations = 1 << 14;

bool fits(scf::ForOp loop, int64_t factor) {
  if (APInt step;
      matchPattern(loop.getStep(), m_ConstantInt(&step)) && step.ugt(longestStep(loop, factor))) {
    loop.emitRemark("a hint has no effect: unroll: ")
        << factor << " of the loop's steps do not fit in the type of its counter";
    return false;
  }
  int64_t operations = 0;
  loop.getBody()->walk([&](Operation *) { ++operations; });
  if (factor <= mostOperations / operations)
    return true;
  loop.emitRemark("a hint has no effect: unroll: ")
      << factor << " times a body of " << operations << " operations is too much";
  return false;
}

struct UnrollLoops : sectile::impl::UnrollLoopsBase<UnrollLoops> {
  void runOnOperation() override {
    // Inner loops first: what is repeated of an outer one has its inner ones unrolled.
    for (scf::ForOp loop : allIn<scf::ForOp>(getOperation())) {
      reportIgnored(loop);
      auto factor = loop->getAttrOfType<IntegerAttr>(hints::unroll);
      if (factor && factor.getInt() > 1 && fits(loop, factor.getInt()))
        unroll(loop, factor.getInt());
    }
  }
};

} // namespace
