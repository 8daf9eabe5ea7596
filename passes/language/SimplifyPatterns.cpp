// Rewrites of tile and cta operations. Every one leaves fewer operations, smaller tiles, an access
// without a mask, or a loop whose iterations can be counted.
#include "passes/language/SimplifyPatterns.h"
#include "ir/cta/Cta.h"
#include "ir/tile/Overflow.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "passes/analysis/SharedMemory.h"

using namespace mlir;

namespace sectile {

namespace {

/// The same scalar everywhere stays that under every change of shape or layout.
template <typename Op> struct ShapeOfSplat : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    auto splat = op.getSource().template getDefiningOp<tile::SplatOp>();
    if (!splat)
      return rewriter.notifyMatchFailure(op, "source is no splat");
    rewriter.replaceOpWithNewOp<tile::SplatOp>(op, op.getType(), splat.getSource());
    return success();
  }
};

/// The second of two reshapes, broadcasts or conversions alone says what comes out.
template <typename Op> struct SameTwice : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    auto first = op.getSource().template getDefiningOp<Op>();
    if (!first)
      return rewriter.notifyMatchFailure(op, "source is made by another operation");
    // Once a reshape through shared memory has a layout of its own, it is not undone for nothing.
    if constexpr (std::is_same_v<Op, tile::ReshapeOp>)
      if (cta::layoutOf(op.getType()) && !(staysInThreads(op) && staysInThreads(first)))
        return rewriter.notifyMatchFailure(op, "elements change threads");
    rewriter.modifyOpInPlace(op, [&] { op.getSourceMutable().assign(first.getSource()); });
    return success();
  }
};

struct PermuteTwice : OpRewritePattern<tile::PermuteOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tile::PermuteOp op, PatternRewriter &rewriter) const override {
    auto first = op.getSource().getDefiningOp<tile::PermuteOp>();
    if (!first)
      return rewriter.notifyMatchFailure(op, "source is no permute");
    SmallVector<int32_t> order;
    for (int32_t axis : op.getOrder())
      order.push_back(first.getOrder()[axis]);
    rewriter.replaceOpWithNewOp<tile::PermuteOp>(op, op.getType(), first.getSource(), order);
    return success();
  }
};

/// Arithmetic on tiles that each hold one number is done on that number.
struct ElementwiseOfSplats : OpTraitRewritePattern<OpTrait::Elementwise> {
  explicit ElementwiseOfSplats(MLIRContext *context) : OpTraitRewritePattern(context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (op->getNumResults() != 1 || !op->hasTrait<OpTrait::Scalarizable>() ||
        !isa<RankedTensorType>(op->getResult(0).getType()))
      return rewriter.notifyMatchFailure(op, "is not computed element by element on a tile");
    bool anySplat = false;
    for (Value operand : op->getOperands()) {
      bool splat = operand.getDefiningOp<tile::SplatOp>() != nullptr;
      if (!splat && isa<RankedTensorType>(operand.getType()) &&
          !matchPattern(operand, m_Constant<SplatElementsAttr>(nullptr)))
        return rewriter.notifyMatchFailure(op, "an operand's elements differ");
      anySplat |= splat;
    }
    // Constants alone are folded elsewhere.
    if (!anySplat)
      return rewriter.notifyMatchFailure(op, "no operand is a splat");
    SmallVector<Value> scalars;
    for (Value operand : op->getOperands())
      scalars.push_back(scalarOf(operand, op->getLoc(), rewriter));
    Type type = op->getResult(0).getType();
    Operation *scalar = rewriter.create(op->getLoc(), op->getName().getIdentifier(), scalars,
                                        tile::elementType(type), op->getAttrs());
    rewriter.replaceOpWithNewOp<tile::SplatOp>(op, type, scalar->getResult(0));
    return success();
  }

  static Value scalarOf(Value operand, Location loc, PatternRewriter &rewriter) {
    if (auto splat = operand.getDefiningOp<tile::SplatOp>())
      return splat.getSource();
    SplatElementsAttr constant;
    if (matchPattern(operand, m_Constant(&constant)))
      return arith::ConstantOp::create(rewriter, loc,
                                       cast<TypedAttr>(constant.getSplatValue<Attribute>()));
    return operand; // a scalar
  }
};

/// Comparing a range with a constant that lies outside it. Views whose extents are constants give
/// such masks.
struct CompareOfRange : OpRewritePattern<arith::CmpIOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::CmpIOp op, PatternRewriter &rewriter) const override {
    auto range = op.getLhs().getDefiningOp<tile::ArangeOp>();
    APInt constant;
    if (!range || !matchPattern(op.getRhs(), m_ConstantInt(&constant)))
      return rewriter.notifyMatchFailure(op, "compares no range with a constant");
    int64_t first = static_cast<int32_t>(range.getStart()), bound = constant.getSExtValue();
    int64_t end = first + range.getType().getNumElements();
    std::optional<bool> result;
    if (op.getPredicate() == arith::CmpIPredicate::slt)
      result = end <= bound     ? std::optional(true)
               : first >= bound ? std::optional(false)
                                : std::nullopt;
    else if (op.getPredicate() == arith::CmpIPredicate::sge)
      result = first >= bound ? std::optional(true)
               : end <= bound ? std::optional(false)
                              : std::nullopt;
    if (!result)
      return rewriter.notifyMatchFailure(op, "elements differ");
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(
        op, DenseElementsAttr::get(cast<ShapedType>(op.getType()), *result));
    return success();
  }
};

/// A loop's counter plus no more than its step stays in range, as the loop's end does. A loop from
/// the counter to there is known to have one iteration then.
struct CounterPlusStep : OpRewritePattern<arith::AddIOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::AddIOp op, PatternRewriter &rewriter) const override {
    auto counter = dyn_cast<BlockArgument>(op.getLhs());
    auto loop = counter ? dyn_cast<scf::ForOp>(counter.getOwner()->getParentOp()) : nullptr;
    APInt added, step;
    if (!loop || counter != loop.getInductionVar() ||
        !matchPattern(op.getRhs(), m_ConstantInt(&added)) ||
        !matchPattern(loop.getStep(), m_ConstantInt(&step)) || !added.isStrictlyPositive() ||
        added.sgt(step))
      return rewriter.notifyMatchFailure(op, "adds to no counter, or more than its step");
    const auto flag =
        loop.getUnsignedCmp() ? arith::IntegerOverflowFlags::nuw : arith::IntegerOverflowFlags::nsw;
    const arith::IntegerOverflowFlags known = op.getOverflowFlags() | flag;
    if (known == op.getOverflowFlags())
      return rewriter.notifyMatchFailure(op, "is known");
    rewriter.modifyOpInPlace(op, [&] { op.setOverflowFlags(known); });
    return success();
  }
};

/// Loops of no iterations or of one, and loops that only hand values on. MLIR's own pattern counts
/// iterations in the type of the bounds, where the distance between two of them may not fit.
struct TrivialLoop : OpRewritePattern<scf::ForOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(scf::ForOp loop, PatternRewriter &rewriter) const override {
    const std::optional<Trips> trips = tripsOf(loop);
    if (!trips)
      return rewriter.notifyMatchFailure(loop, "how often it runs is not known");
    if (*trips == Trips::None) {
      rewriter.replaceOp(loop, loop.getInitArgs());
      return success();
    }
    Operation *yield = loop.getBody()->getTerminator();
    if (*trips == Trips::One) {
      SmallVector<Value> values{loop.getLowerBound()};
      llvm::append_range(values, loop.getInitArgs());
      rewriter.inlineBlockBefore(loop.getBody(), loop, values);
      rewriter.replaceOp(loop, yield->getOperands());
      rewriter.eraseOp(yield);
      return success();
    }
    if (&loop.getBody()->front() != yield || llvm::any_of(yield->getOperands(), [&](Value value) {
          return !loop.isDefinedOutsideOfLoop(value);
        }))
      return rewriter.notifyMatchFailure(loop, "runs more than once");
    rewriter.replaceOp(loop, yield->getOperands());
    return success();
  }

private:
  enum class Trips { None, One, More };

  static std::optional<Trips> tripsOf(scf::ForOp loop) {
    const bool isSigned = !loop.getUnsignedCmp();
    Value from = loop.getLowerBound(), to = loop.getUpperBound();
    APInt lower, upper, distance, step;
    if (from == to)
      return Trips::None;
    if (matchPattern(from, m_ConstantInt(&lower)) && matchPattern(to, m_ConstantInt(&upper))) {
      if (isSigned ? lower.sge(upper) : lower.uge(upper))
        return Trips::None;
      distance = upper - lower; // exact without its sign
    } else {
      auto add = to.getDefiningOp<arith::AddIOp>();
      if (!add || add.getLhs() != from || !matchPattern(add.getRhs(), m_ConstantInt(&distance)) ||
          !(isSigned ? add.hasNoSignedWrap() : add.hasNoUnsignedWrap()))
        return std::nullopt;
      if (distance.isZero() || (isSigned && distance.isNegative()))
        return Trips::None;
    }
    if (!matchPattern(loop.getStep(), m_ConstantInt(&step)))
      return std::nullopt;
    return distance.ule(step) ? Trips::One : Trips::More;
  }
};

/// The value that a mask has everywhere, if it is a constant.
std::optional<bool> constantMask(Value mask) {
  APInt value;
  if (mask && matchPattern(mask, m_ConstantInt(&value)))
    return !value.isZero();
  return std::nullopt;
}

/// A loop that goes on while a counter is below a bound is one over a range: loads are copied ahead
/// of those alone, by the engine, too.
struct CountingWhile : OpRewritePattern<scf::WhileOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(scf::WhileOp loop, PatternRewriter &rewriter) const override {
    const std::optional<Counter> counter = counterOf(loop);
    if (!counter)
      return rewriter.notifyMatchFailure(loop, "counts to no bound");
    // The number of what the first region gets, for what the second gets.
    SmallVector<unsigned> sources;
    for (Value value : loop.getConditionOp().getArgs()) {
      auto argument = dyn_cast<BlockArgument>(value);
      if (!argument || argument.getOwner() != loop.getBeforeBody())
        return rewriter.notifyMatchFailure(loop, "hands on what its condition computes");
      sources.push_back(argument.getArgNumber());
    }
    auto range = scf::ForOp::create(rewriter, loop.getLoc(), loop.getInits()[counter->number],
                                    counter->bound, counter->step, loop.getInits());
    SmallVector<Value> arguments, results;
    for (unsigned source : sources) {
      arguments.push_back(source == counter->number ? range.getInductionVar()
                                                    : range.getRegionIterArg(source));
      results.push_back(range.getResult(source));
    }
    rewriter.inlineBlockBefore(loop.getAfterBody(), range.getBody(), range.getBody()->end(),
                               arguments);
    rewriter.replaceOp(loop, results);
    return success();
  }

private:
  struct Counter {
    unsigned number; ///< among what the loop carries
    Value bound, step;
  };

  static std::optional<Counter> counterOf(scf::WhileOp loop) {
    auto compare = loop.getConditionOp().getCondition().getDefiningOp<arith::CmpIOp>();
    if (!compare || &loop.getBeforeBody()->front() != compare ||
        compare->getNextNode() != loop.getConditionOp())
      return std::nullopt;
    Value low = compare.getLhs(), bound = compare.getRhs();
    if (compare.getPredicate() == arith::CmpIPredicate::sgt)
      std::swap(low, bound);
    else if (compare.getPredicate() != arith::CmpIPredicate::slt)
      return std::nullopt;
    auto counter = dyn_cast<BlockArgument>(low);
    if (!counter || counter.getOwner() != loop.getBeforeBody() ||
        !loop.isDefinedOutsideOfLoop(bound))
      return std::nullopt;
    const unsigned number = counter.getArgNumber();
    // One with a width of its own may wrap around.
    auto next = loop.getYieldOp()->getOperand(number).getDefiningOp<arith::AddIOp>();
    if (!next || !tile::isMarkedToFit(*next))
      return std::nullopt;
    for (auto [from, step] :
         {std::pair(next.getLhs(), next.getRhs()), std::pair(next.getRhs(), next.getLhs())}) {
      auto argument = dyn_cast<BlockArgument>(from);
      if (argument && argument.getOwner() == loop.getAfterBody() &&
          loop.getConditionOp().getArgs()[argument.getArgNumber()] == counter &&
          loop.isDefinedOutsideOfLoop(step) && isPositive(step))
        return Counter{number, bound, step};
    }
    return std::nullopt;
  }

  static bool isPositive(Value step) {
    APInt constant;
    return step.getDefiningOp<tile::NumProgramsOp>() ||
           (matchPattern(step, m_ConstantInt(&constant)) && constant.isStrictlyPositive());
  }
};

template <typename Op> struct LoadOfConstantMask : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    std::optional<bool> mask = constantMask(op.getMask());
    if (!mask)
      return rewriter.notifyMatchFailure(op, "has no mask, or one that is not constant");
    if (*mask) {
      rewriter.modifyOpInPlace(op, [&] {
        op.getMaskMutable().clear();
        op.getOtherMutable().clear();
      });
      return success();
    }
    if (op.getOther()) {
      rewriter.replaceOp(op, op.getOther());
      return success();
    }
    TypedAttr zero = rewriter.getZeroAttr(op.getResult().getType());
    if (!zero)
      return rewriter.notifyMatchFailure(op, "its type has no zero");
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, zero);
    return success();
  }
};

template <typename Op> struct StoreOfConstantMask : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    std::optional<bool> mask = constantMask(op.getMask());
    if (!mask)
      return rewriter.notifyMatchFailure(op, "has no mask, or one that is not constant");
    if (*mask)
      rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().clear(); });
    else
      rewriter.eraseOp(op);
    return success();
  }
};

template <typename Op> struct AtomicOfConstantMask : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    std::optional<bool> mask = constantMask(op.getMask());
    if (!mask)
      return rewriter.notifyMatchFailure(op, "has no mask, or one that is not constant");
    if (*mask)
      rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().clear(); });
    else
      rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, rewriter.getZeroAttr(op.getType()));
    return success();
  }
};

} // namespace

void addSimplifyPatterns(RewritePatternSet &patterns) {
  patterns.add<ShapeOfSplat<tile::BroadcastOp>, ShapeOfSplat<tile::ExpandDimsOp>,
               ShapeOfSplat<tile::ReshapeOp>, ShapeOfSplat<tile::PermuteOp>,
               ShapeOfSplat<cta::ConvertLayoutOp>, SameTwice<tile::BroadcastOp>,
               SameTwice<tile::ReshapeOp>, SameTwice<cta::ConvertLayoutOp>, PermuteTwice,
               ElementwiseOfSplats, CompareOfRange, CounterPlusStep, TrivialLoop, CountingWhile,
               LoadOfConstantMask<tile::LoadOp>, LoadOfConstantMask<cta::BufferLoadOp>,
               StoreOfConstantMask<tile::StoreOp>, StoreOfConstantMask<cta::BufferStoreOp>,
               AtomicOfConstantMask<tile::AtomicRMWOp>, AtomicOfConstantMask<tile::AtomicCasOp>>(
      patterns.getContext());
}

} // namespace sectile
