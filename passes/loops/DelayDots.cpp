// Has a loop multiply what it computes from one dot's result an iteration later, as
// FlashAttention-3 does (Shah et al., arXiv 2407.08608, 3.2).
//
//   iteration i: S = dot(q, k(i))            iteration i: S = dot(q, k(i))
//                p = f(S)                                 o = dot(p', v(i-1), o)
//                o = dot(p, v(i), o · s)                  p = f(S)
//                                                         o = o · s
//                                            afterwards:  o = dot(p, v(last), o)
//
// p' is that of the iteration before. In the first it is zero, and so is what v's load gives. The
// dot then runs beside f, and nothing is in flight over the end of an iteration.
#include "ir/MmaElements.h"
#include "ir/tile/Overflow.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/Registers.h"
#include "passes/loops/FetchAhead.h"
#include "passes/loops/LoopHints.h"
#include "passes/loops/OverlapDots.h"

namespace sectile {
#define GEN_PASS_DEF_DELAYDOTS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

/// The dot of a loop that can be done an iteration later.
struct DelayedDot {
  cta::DotOp dot;
  CarriedSums sums;
  cta::DotOp behind;                  ///< the last of those that its a follows from
  SmallVector<Operation *> operand{}; ///< what the loop makes its b by, in order
};

struct DelayDots : sectile::impl::DelayDotsBase<DelayDots> {
  void runOnOperation() override {
    FailureOr<Target> found = targetOf(getOperation());
    if (failed(found))
      return signalPassFailure();
    target = *found;
    if (!target.tensorCopy)
      return;
    for (scf::ForOp loop : allIn<scf::ForOp>(getOperation())) {
      if (!hints::asksForProducer(loop) || loop.getUnsignedCmp())
        continue;
      std::optional<DelayedDot> delayed = delayedIn(loop);
      if (!delayed)
        continue;
      if (!registersHold(
              delayed->dot,
              {delayed->behind.getType(), delayed->dot.getA().getType(), delayed->dot.getType()},
              besideTiles::rows, target))
        delayed->dot.emitRemark("this dot is done in its own iteration, beside no other work: "
                                "registers do not hold its operand for another one");
      else
        delay(loop, *delayed);
    }
  }

  std::optional<DelayedDot> delayedIn(scf::ForOp loop) {
    SmallVector<cta::DotOp> dots = allIn<cta::DotOp>(loop);
    if (dots.size() < 2 || !llvm::all_of(dots, [&](cta::DotOp dot) {
          return dot->getBlock() == loop.getBody() && isAsynchronous(dot, target);
        }))
      return std::nullopt;
    cta::DotOp dot = dots.pop_back_val();
    std::optional<CarriedSums> sums = carriedSums(dot);
    // Sums that nothing rescales are waited for in the next iteration anyway.
    if (!sums || sums->rescaling.empty() || !isPacked(dot))
      return std::nullopt;
    const SmallVector<Operation *> made = sliceOf(loop, dot.getA());
    if (!llvm::all_of(dots, [&](cta::DotOp other) { return llvm::is_contained(made, other); }))
      return std::nullopt;
    DelayedDot delayed{.dot = dot, .sums = *sums, .behind = dots.back()};
    if (loop.isDefinedOutsideOfLoop(dot.getB()) || findOperand(loop, delayed))
      return delayed;
    return std::nullopt;
  }

  /// The operations of a loop's body that a value follows from in an iteration, in order.
  static SmallVector<Operation *> sliceOf(scf::ForOp loop, Value value) {
    BackwardSliceOptions options;
    options.inclusive = true;
    options.omitUsesFromAbove = false;
    options.filter = [&](Operation *op) { return loop->isProperAncestor(op); };
    SetVector<Operation *> slice;
    (void)getBackwardSlice(value, &slice, options);
    SmallVector<Operation *> ops = llvm::filter_to_vector(
        slice, [&](Operation *op) { return op->getBlock() == loop.getBody(); });
    llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    return ops;
  }

  /// Finds what a dot's b is made by: a load that nothing else reads and that may run later.
  bool findOperand(scf::ForOp loop, DelayedDot &delayed) {
    Operation *made = delayed.dot.getB().getDefiningOp();
    if (!made) // the loop carries it
      return false;
    while (made->hasOneUse() && isa<cta::ConvertLayoutOp, tile::PermuteOp>(made)) {
      made = made->getOperand(0).getDefiningOp();
      if (!made || made->getBlock() != loop.getBody())
        return false;
    }
    AddressAnalysis addresses(getOperation());
    if (!made->hasOneUse() || !isa<tile::LoadBlockOp>(made) || followsCarried(loop, made) ||
        !whyNotAhead(loop, made, Producer::Copies, addresses).empty())
      return false;
    delayed.operand = sliceOf(loop, delayed.dot.getB());
    return true;
  }

  static void delay(scf::ForOp loop, const DelayedDot &delayed) {
    IRRewriter builder(loop);
    cta::DotOp dot = delayed.dot;
    const Location loc = dot.getLoc();
    Value zeros = arith::ConstantOp::create(
        builder, loc, cast<TypedAttr>(builder.getZeroAttr(dot.getA().getType())));
    auto longer = cast<scf::ForOp>(
        *loop.replaceWithAdditionalYields(builder, zeros, /*replaceInitOperandUsesInLoop=*/false,
                                          [&](OpBuilder &, Location, ArrayRef<BlockArgument>) {
                                            return SmallVector<Value>{dot.getA()};
                                          }));
    const unsigned number = delayed.sums.number;
    Value iv = longer.getInductionVar(), sums = longer.getRegionIterArg(number);

    builder.setInsertionPointAfter(delayed.behind);
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
    Value result = longer.getResult(number);
    result.replaceAllUsesExcept(last.getResult(0), last);
    builder.setInsertionPointToStart(last.getBody());
    Value whole = addAt(builder, delayed, last.getInductionVar(), {}, iv,
                        longer.getResults().back(), last.getRegionIterArg(0));
    scf::YieldOp::create(builder, loc, whole);
    dot.erase();
    for (Operation *op : llvm::reverse(delayed.operand))
      if (isOpTriviallyDead(op))
        op->erase();
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
    auto numberOf = [&](int64_t value) {
      return arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(step.getType(), value));
    };
    Value distance = tile::createToFit<arith::SubIOp>(builder, loc, end, first);
    Value before = tile::createToFit<arith::SubIOp>(builder, loc, distance, numberOf(1));
    Value steps = builder.createOrFold<arith::DivSIOp>(loc, before, step);
    Value way = tile::createToFit<arith::MulIOp>(builder, loc, steps, step);
    Value last = arith::MaxSIOp::create(
        builder, loc, tile::createToFit<arith::AddIOp>(builder, loc, first, way), first);
    auto found = scf::ForOp::create(builder, loc, last, end, step, loop.getResult(number));
    found->setAttr(hints::warpSpecialize, builder.getBoolAttr(true));
    if (Attribute stages = loop->getAttr(cta::stagesAttr))
      found->setAttr(cta::stagesAttr, stages);
    return found;
  }

  Target target;
};

} // namespace
