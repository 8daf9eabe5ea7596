// Canonicalisation, common subexpressions and loop-invariant code in one pass: patterns are
// gathered once per pipeline, not once per run, since compiling a kernel is a matter of
// milliseconds.
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"
#include "passes/Passes.h"
#include "passes/language/SimplifyPatterns.h"

namespace sectile {
#define GEN_PASS_DEF_SIMPLIFY
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

struct Simplify : sectile::impl::SimplifyBase<Simplify> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    for (Dialect *dialect : context->getLoadedDialects())
      dialect->getCanonicalizationPatterns(set);
    for (RegisteredOperationName op : context->getRegisteredOperations())
      op.getCanonicalizationPatterns(set, context);
    // Ours counts the iterations of loops whose bounds are far apart, too.
    llvm::erase_if(set.getNativePatterns(), [](const std::unique_ptr<RewritePattern> &pattern) {
      return pattern->getRootKind() ==
                 OperationName(scf::ForOp::getOperationName(), pattern->getContext()) &&
             pattern->getDebugName().ends_with("SimplifyTrivialLoops");
    });
    addSimplifyPatterns(set);
    patterns = FrozenRewritePatternSet(std::move(set));
    return success();
  }

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    // Not converging within the driver's limit leaves valid code, only less simple.
    (void)applyPatternsGreedily(func, patterns);
    func.walk([](LoopLikeOpInterface loop) { moveLoopInvariantCode(loop); });
    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(func);
    eliminateCommonSubExpressions(rewriter, dominance, func);
  }

  FrozenRewritePatternSet patterns;
};

} // namespace
