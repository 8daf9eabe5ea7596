// Adds a value to what nested loops carry, outwards from the innermost one.
#include "passes/loops/CarriedValues.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace sectile {

CarriedValue carryThroughLoops(Operation *op, TypedAttr first, Value next) {
  CarriedValue carried{{}, next};
  IRRewriter rewriter(op->getContext());
  scf::ForOp inner;
  for (auto outer = dyn_cast<scf::ForOp>(op->getParentOp()); outer;
       outer = dyn_cast<scf::ForOp>(inner->getParentOp())) {
    rewriter.setInsertionPoint(outer);
    Value begin = arith::ConstantOp::create(rewriter, outer.getLoc(), first);
    auto yielded = [&](OpBuilder &, Location, ArrayRef<BlockArgument>) {
      return SmallVector<Value>{carried.after};
    };
    auto wider = cast<scf::ForOp>(
        *outer.replaceWithAdditionalYields(rewriter, begin, /*inLoop=*/false, yielded));
    const Value inside = wider.getRegionIterArgs().back();
    if (inner)
      inner.getInitArgsMutable()[inner.getNumRegionIterArgs() - 1].assign(inside);
    else
      carried.before = inside;
    carried.after = wider.getResults().back();
    inner = wider;
  }
  return carried;
}

} // namespace sectile
