// Chooses what a loop's dots do in another iteration than their own, so that they run beside other
// work.
#include "ir/MmaElements.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "passes/analysis/Registers.h"
#include "passes/loops/LoopHints.h"
#include "passes/loops/LoopPlan.h"
#include "passes/loops/LoopResources.h"

using namespace mlir;

namespace sectile {

namespace {

bool isCast(Operation *op) { return isa<arith::ExtFOp, arith::SIToFPOp, arith::UIToFPOp>(op); }

/// Whether all results of an operation are zero where its operands are.
bool keepsZero(Operation *op) {
  return isCast(op) || isa<arith::MulFOp, tile::SplatOp, tile::BroadcastOp, tile::ExpandDimsOp,
                           tile::ReshapeOp, tile::PermuteOp, cta::ConvertLayoutOp>(op);
}

class DotPlanner {
public:
  DotPlanner(scf::ForOp loop, unsigned stages, const Target &target)
      : loop(loop), stages(stages), target(target), dots(asynchronousDots(loop, target)) {}

  DotSchedule run() {
    // Where threads copy, registers hold their addresses instead of another iteration's results.
    if (target.tensorCopy && hints::asksForProducer(loop))
      promoteLater();
    if (target.tensorCopy && (hints::asksForProducer(loop) || isFetchedAhead()))
      delayLastDot();
    return std::move(schedule);
  }

private:
  /// Whether loads are planned for it. A partition fills its channels itself.
  bool isFetchedAhead() const { return stages > 1 && !loop->getParentOfType<cta::PartitionOp>(); }

  void remark(Operation *at, const Twine &text) { schedule.remarks.push_back({at, text.str()}); }

  /// Has the result of the only dot promoted an iteration later.
  void promoteLater() {
    if (dots.size() != 1 || !beginsAsZeros(dots.front()))
      return;
    std::optional<DelayedPromotion> promotion = promotionOf(dots.front());
    StringRef why = "registers do not hold two of its results";
    if (!promotion)
      why = "the loop does more with it than to scale it and add it to what it carries";
    else if (isMadeAlongK(dots.front()))
      why = "registers hold what it multiplies on its way along K";
    else if (registersHold(*promotion, target))
      schedule.promotion = std::move(promotion);
    if (!schedule.promotion)
      remark(dots.front(), "this dot is complete in its own iteration, before its result is added "
                           "to other sums: " +
                               why);
  }

  static bool isMadeAlongK(cta::DotOp dot) { return alongKOf(dot.getA()) || alongKOf(dot.getB()); }

  std::optional<DelayedPromotion> promotionOf(cta::DotOp dot) {
    DelayedPromotion promotion{dot};
    Value value = promotion.dot.getResult();
    while (value.hasOneUse()) {
      Operation *op = *value.user_begin();
      if (op->getBlock() != loop.getBody())
        return std::nullopt;
      promotion.ops.push_back(op);
      if (auto add = dyn_cast<arith::AddFOp>(op)) {
        const std::optional<unsigned> number = numberOfTotal(add, value);
        if (!number)
          return std::nullopt;
        promotion.number = *number;
        return promotion;
      }
      if (!isCast(op) && !(isa<arith::MulFOp>(op) && takeFactor(op, value, promotion)))
        return std::nullopt;
      value = op->getResult(0);
    }
    return std::nullopt;
  }

  /// The number of the carried value that `add` adds to, if nothing else becomes of it.
  std::optional<unsigned> numberOfTotal(arith::AddFOp add, Value value) {
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
  bool takeFactor(Operation *op, Value value, DelayedPromotion &promotion) {
    Value factor = op->getOperand(0) == value ? op->getOperand(1) : op->getOperand(0);
    if (factor == value)
      return false;
    Carried carried = carriedFor(factor);
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
  };

  /// A few more registers are well spent: what is loaded is not waited for in its own iteration.
  Carried carriedFor(Value value) {
    constexpr unsigned few = 2;
    Operation *op = value.getDefiningOp();
    if (op && op->getBlock() == loop.getBody() && keepsZero(op)) {
      Carried found;
      for (Value operand : op->getOperands()) {
        Carried of = carriedFor(operand);
        found.values.insert(of.values.begin(), of.values.end());
        found.ops.insert(of.ops.begin(), of.ops.end());
      }
      found.ops.insert(op);
      unsigned registers = 0;
      for (Value each : found.values)
        registers += registersOf(each.getType());
      if (registers <= registersOf(value.getType()) + few)
        return found;
    }
    Carried itself;
    itself.values.insert(value);
    return itself;
  }

  /// Has the last of several dots done an iteration later.
  void delayLastDot() {
    if (dots.size() < 2)
      return;
    cta::DotOp dot = dots.back();
    std::optional<CarriedSums> sums = carriedSums(dot);
    std::string why = delay(dot, sums);
    // Sums that nothing rescales may be in flight all the same.
    if (!why.empty() && !(sums && sums->rescaling.empty()))
      remark(dot, "this dot is done in its own iteration, beside no other work: " + why);
  }

  /// Gives the reason where it does not.
  std::string delay(cta::DotOp dot, const std::optional<CarriedSums> &sums) {
    const ArrayRef<cta::DotOp> others = ArrayRef(dots).drop_back();
    if (!sums)
      return "the loop does more with its sums than rescale them and add to them";
    if (loop.getUnsignedCmp())
      return "the loop counts without a sign";
    if (!isPacked(dot))
      return "what it multiplies is not computed element by element from one tile of the type of "
             "its sums";
    const SmallVector<Operation *> made = sliceOf(dot.getA());
    if (!llvm::all_of(others, [&](cta::DotOp other) { return llvm::is_contained(made, other); }))
      return "what it multiplies does not follow from all other dots of the loop";
    DelayedDot delayed{.dot = dot, .sums = *sums, .after = others.back()};
    if (!loop.isDefinedOutsideOfLoop(dot.getB()) && !findOperand(delayed))
      return "its second operand is not a load of its own that may be made an iteration later";
    if (!registersHold(delayed, target))
      return "registers do not hold its operand for another one";
    if (loop->hasAttr(hints::oneAccumulator)) {
      schedule.hints.push_back(hints::oneAccumulator);
      return "";
    }
    if (!hints::asksForProducer(loop)) {
      auto kernel = loop->getParentOfType<func::FuncOp>();
      const SharedTiles tiles = tilesForDots(kernel, target);
      const auto loads = loadsByEngine(loop, tiles, ContiguityAnalysis(kernel), target);
      // Registers would hold their addresses in place of its operand.
      if (!loads)
        return "threads copy what the loop multiplies";
      // Other blocks run beside its dots then.
      if (LoopResources(kernel, tiles, target)
              .canShareMultiprocessor(delayed, *loads, stages, loop))
        return "";
    }
    schedule.delayed = std::move(delayed);
    return "";
  }

  /// The operations of the loop's body that a value follows from in an iteration, in order.
  SmallVector<Operation *> sliceOf(Value value) {
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

  /// Finds what the dot's b is made by: a load that nothing else reads and that may run later.
  bool findOperand(DelayedDot &delayed) {
    Operation *made = delayed.dot.getB().getDefiningOp();
    if (!made) // the loop carries it
      return false;
    while (made->hasOneUse() && isa<cta::ConvertLayoutOp, tile::PermuteOp>(made)) {
      made = made->getOperand(0).getDefiningOp();
      if (!made || made->getBlock() != loop.getBody())
        return false;
    }
    AddressAnalysis addresses(loop->getParentOfType<func::FuncOp>());
    if (!made->hasOneUse() || !isa<tile::LoadBlockOp>(made) || followsCarried(loop, made) ||
        !whyNotAhead(loop, made, Producer::Copies, addresses).empty())
      return false;
    delayed.operand = sliceOf(delayed.dot.getB());
    return true;
  }

  scf::ForOp loop;
  const unsigned stages;
  const Target &target;
  const SmallVector<cta::DotOp> dots;
  DotSchedule schedule;
};

} // namespace

DotSchedule planDots(scf::ForOp loop, unsigned stages, const Target &target) {
  return DotPlanner(loop, stages, target).run();
}

} // namespace sectile
