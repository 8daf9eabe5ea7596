// Promotes what a dot gives while the next dot multiplies.
//
//   iteration i: sums = dot i                iteration i: sums = dot i
//                total += scales * sums                   total += scales' * sums'
//                                            afterwards:  total += scales' * sums'
//
// sums' and scales' are those of the iteration before; in the first they are zeros. Threads have
// something to do then while the matrix instruction runs, and it does not wait for them.
#include "ir/MmaElements.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "passes/DeadCode.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/Registers.h"
#include "passes/loops/LoopHints.h"
#include "llvm/ADT/SetVector.h"

namespace sectile {
#define GEN_PASS_DEF_PROMOTELATE
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

bool isZero(Value value) {
  return matchPattern(value, m_AnyZeroFloat()) || matchPattern(value, m_Zero());
}

bool isCast(Operation *op) { return isa<arith::ExtFOp, arith::SIToFPOp, arith::UIToFPOp>(op); }

/// Whether all results of an operation are zero where its operands are.
bool keepsZero(Operation *op) {
  return isCast(op) || isa<arith::MulFOp, tile::SplatOp, tile::BroadcastOp, tile::ExpandDimsOp,
                           tile::ReshapeOp, tile::PermuteOp, cta::ConvertLayoutOp>(op);
}

/// What becomes of a dot's result, in its loop.
struct Promotion {
  cta::DotOp dot;
  SmallVector<Operation *> ops;  ///< in order; the last one adds to what the loop carries
  unsigned number = 0;           ///< of that
  llvm::SetVector<Value> others; ///< what else the operations take from the loop
};

struct PromoteLate : sectile::impl::PromoteLateBase<PromoteLate> {
  void runOnOperation() override {
    FailureOr<Target> found = targetOf(getOperation());
    if (failed(found))
      return signalPassFailure();
    target = *found;
    for (scf::ForOp loop : allIn<scf::ForOp>(getOperation())) {
      // Where threads copied, their addresses would need the registers.
      if (!hints::asksForProducer(loop))
        continue;
      std::optional<Promotion> promotion = promotionIn(loop);
      if (!promotion)
        continue;
      cta::DotOp dot = promotion->dot;
      const Type sums = dot.getType(); // two results of the dot, and what they are added to
      if (!registersHold(dot, {sums, sums, sums}, besideTiles::promoting, target)) {
        dot.emitRemark(
            "this dot is scaled before the next begins: registers do not hold two of its results");
        continue;
      }
      delay(loop, *promotion);
    }
  }

  /// The loop's dot, if there is no other.
  static cta::DotOp onlyDot(scf::ForOp loop) {
    const SmallVector<cta::DotOp> dots = allIn<cta::DotOp>(loop);
    return dots.size() == 1 && dots[0]->getBlock() == loop.getBody() ? dots[0] : cta::DotOp();
  }

  std::optional<Promotion> promotionIn(scf::ForOp loop) {
    cta::DotOp dot = onlyDot(loop);
    if (!dot || !isAsynchronous(dot, target) || !isZero(dot.getAcc()))
      return std::nullopt;
    Promotion promotion{dot, {}, 0, {}};
    Value value = dot.getResult();
    while (value.hasOneUse()) {
      Operation *op = *value.user_begin();
      if (op->getBlock() != loop.getBody())
        return std::nullopt;
      promotion.ops.push_back(op);
      if (auto add = dyn_cast<arith::AddFOp>(op)) {
        const std::optional<unsigned> number = sumIn(loop, add, value);
        if (!number)
          return std::nullopt;
        promotion.number = *number;
        return promotion;
      }
      if (!isCast(op) && !(isa<arith::MulFOp>(op) && takeOther(loop, op, value, promotion)))
        return std::nullopt;
      value = op->getResult(0);
    }
    return std::nullopt;
  }

  /// The number of what the loop carries, if an addition to it is all that becomes of it.
  static std::optional<unsigned> sumIn(scf::ForOp loop, arith::AddFOp add, Value value) {
    auto carried = dyn_cast<BlockArgument>(add.getLhs() == value ? add.getRhs() : add.getLhs());
    if (!carried || carried.getOwner() != loop.getBody() || carried == loop.getInductionVar() ||
        !carried.hasOneUse() || !add->hasOneUse())
      return std::nullopt;
    const unsigned number = carried.getArgNumber() - loop.getNumInductionVars();
    return loop.getYieldedValues()[number] == add.getResult() ? std::optional(number)
                                                              : std::nullopt;
  }

  /// Adds what `op` multiplies a value by to what is carried to the next iteration; false where its
  /// zeros might not make zeros.
  static bool takeOther(scf::ForOp loop, Operation *op, Value value, Promotion &promotion) {
    Value other = op->getOperand(0) == value ? op->getOperand(1) : op->getOperand(0);
    if (other == value)
      return false;
    Carried carried = carriedFor(loop, other);
    if (llvm::any_of(carried.values, [&](Value each) {
          return loop.isDefinedOutsideOfLoop(each) ||
                 !getElementTypeOrSelf(each.getType()).isIntOrFloat();
        }))
      return false;
    promotion.ops.insert(std::prev(promotion.ops.end()), carried.ops.begin(), carried.ops.end());
    promotion.others.insert(carried.values.begin(), carried.values.end());
    return true;
  }

  /// What a value is computed from, and how, an iteration later.
  struct Carried {
    llvm::SetVector<Value> values;
    llvm::SetVector<Operation *> ops;

    unsigned registers() const {
      unsigned sum = 0;
      for (Value value : values)
        sum += registersOf(value.getType());
      return sum;
    }
  };

  /// A few more registers are well spent: what is loaded is not waited for in its own iteration.
  static Carried carriedFor(scf::ForOp loop, Value value) {
    constexpr unsigned few = 2;
    Operation *op = value.getDefiningOp();
    if (op && op->getBlock() == loop.getBody() && keepsZero(op)) {
      Carried found;
      for (Value operand : op->getOperands()) {
        Carried of = carriedFor(loop, operand);
        found.values.insert(of.values.begin(), of.values.end());
        found.ops.insert(of.ops.begin(), of.ops.end());
      }
      found.ops.insert(op);
      if (found.registers() <= registersOf(value.getType()) + few)
        return found;
    }
    Carried itself;
    itself.values.insert(value);
    return itself;
  }

  void delay(scf::ForOp loop, Promotion &promotion) {
    IRRewriter builder(loop);
    SmallVector<Value> later{promotion.dot.getResult()};
    llvm::append_range(later, promotion.others);
    SmallVector<Value> zeros;
    // Arguments of the loop's body are others when it carries more.
    SmallVector<std::optional<unsigned>> arguments;
    for (Value value : later) {
      zeros.push_back(arith::ConstantOp::create(builder, promotion.dot.getLoc(),
                                                builder.getZeroAttr(value.getType())));
      auto argument = dyn_cast<BlockArgument>(value);
      arguments.push_back(argument ? std::optional(argument.getArgNumber()) : std::nullopt);
    }
    auto yielded = [&](OpBuilder &, Location, ArrayRef<BlockArgument> added) {
      for (auto [value, argument] : llvm::zip(later, arguments))
        if (argument)
          value = added.front().getOwner()->getArgument(*argument);
      return SmallVector<Value>(later);
    };
    auto longer = cast<scf::ForOp>(*loop.replaceWithAdditionalYields(
        builder, zeros, /*replaceInitOperandUsesInLoop=*/false, yielded));
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
    result.replaceUsesWithIf(last, [&](OpOperand &use) {
      Operation *user = longer->getBlock()->findAncestorOpInBlock(*use.getOwner());
      return bool(user) && last.getDefiningOp()->isBeforeInBlock(user);
    });
    for (Operation *op : llvm::reverse(promotion.ops))
      if (op->use_empty())
        op->erase();
    // Results change places without moves then. Where one goes around the loop, ptxas (12.8
    // to 13.0) waits for the next dot before it reads it.
    if (!longer->hasAttr(hints::unroll))
      longer->setAttr(hints::unroll, builder.getI32IntegerAttr(4));
  }

  Target target;
};

} // namespace
