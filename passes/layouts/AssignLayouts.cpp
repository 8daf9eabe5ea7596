// Gives every tile a layout: the cheapest assignment over the whole kernel, by the costs of its
// operations and of the conversions between them. Conversions are placed once, at the end, where
// they run least; tiles that take little to compute are made again in each layout instead.
#include "ir/layout/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/SinkTiles.h"
#include "passes/analysis/LayoutRules.h"
#include "passes/checks/Check.h"
#include "passes/layouts/LayoutProblem.h"

namespace sectile {
#define GEN_PASS_DEF_ASSIGNLAYOUTS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

bool isTile(Value value) { return isa<RankedTensorType>(value.getType()); }

RankedTensorType typeIn(Value tile, const Layout &layout) {
  return cta::withLayout(cast<RankedTensorType>(tile.getType()), layout);
}

// The operation in `block` that holds `op`, or is it.
Operation *ancestorIn(Block *block, Operation *op) {
  while (op->getBlock() != block)
    op = op->getParentOp();
  return op;
}

// Writes the solution into the kernel.
class Rewriter {
public:
  Rewriter(func::FuncOp kernel, LayoutProblem &problem) : kernel(kernel), problem(problem) {}

  void run() {
    SmallVector<Operation *> cheapOps, others;
    kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
      bool isCheap = op->getNumResults() == 1 && problem.isCheap(op->getResult(0));
      (isCheap ? cheapOps : others).push_back(op);
    });
    // What every operand is to be, while nothing has changed.
    for (Operation *op : others)
      for (OpOperand &operand : op->getOpOperands())
        if (isTile(operand.get())) {
          RankedTensorType type = wantedType(operand);
          wanted.push_back({&operand, type});
          users[{operand.get(), type}].push_back(op);
        }
    for (Operation *op : others)
      retype(op);
    for (auto &[operand, type] : wanted)
      operand->set(tileOf(operand->get(), type));
    for (Operation *op : llvm::reverse(cheapOps))
      if (op->use_empty())
        op->erase();
  }

private:
  RankedTensorType wantedType(OpOperand &operand) {
    Value tile = operand.get();
    if (const Layout *layout = problem.required(operand))
      return typeIn(tile, *layout);
    if (problem.isCheap(tile))
      return typeIn(tile,
                    problem.plain(cast<RankedTensorType>(tile.getType()), operand.getOwner()));
    return typeIn(tile, problem.layoutOf(tile));
  }

  void retype(Operation *op) {
    auto retype = [&](Value value) {
      if (isTile(value))
        value.setType(typeIn(value, problem.layoutOf(value)));
    };
    llvm::for_each(op->getResults(), retype);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::for_each(block.getArguments(), retype);
  }

  // The tile under a layout: itself, made again, or converted.
  Value tileOf(Value tile, RankedTensorType type) {
    if (tile.getType() == type)
      return tile;
    Value &made = tiles[{tile, type}];
    if (!made) {
      Value fresh = problem.isCheap(tile) ? remade(tile, type) : converted(tile, type);
      return tiles[{tile, type}] = fresh; // what was made on the way may have moved `made`
    }
    return made;
  }

  Value remade(Value tile, RankedTensorType type) {
    Operation *op = tile.getDefiningOp();
    IRMapping operands;
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isTile(operand.get()))
        continue;
      std::optional<Layout> layout = operandLayout(operand, *cta::layoutOf(type));
      assert(layout && "cheap operations are those whose operands' layouts follow");
      operands.map(operand.get(), tileOf(operand.get(), typeIn(operand.get(), *layout)));
    }
    OpBuilder builder(op);
    Operation *copy = builder.clone(*op, operands);
    copy->getResult(0).setType(type);
    if (auto constant = dyn_cast<arith::ConstantOp>(copy))
      constant.setValueAttr(cast<DenseElementsAttr>(constant.getValue()).reshape(type));
    return copy->getResult(0);
  }

  // Converted before the first that uses it, outside of the loops that its definition is outside
  // of. What is made again of it stands where it was made first.
  Value converted(Value tile, RankedTensorType type) {
    if (llvm::any_of(tile.getUsers(), [&](Operation *user) {
          return user->getNumResults() == 1 && problem.isCheap(user->getResult(0));
        })) {
      OpBuilder builder(tile.getContext());
      builder.setInsertionPointAfterValue(tile);
      return cta::ConvertLayoutOp::create(builder, tile.getLoc(), type, tile, IntegerAttr());
    }
    Block *block = tile.getParentBlock();
    Operation *first = nullptr;
    for (Operation *user : users[{tile, type}]) {
      Operation *ancestor = ancestorIn(block, user);
      if (!first || ancestor->isBeforeInBlock(first))
        first = ancestor;
    }
    OpBuilder builder(first);
    return cta::ConvertLayoutOp::create(builder, first->getLoc(), type, tile, IntegerAttr());
  }

  func::FuncOp kernel;
  LayoutProblem &problem;
  std::vector<std::pair<OpOperand *, RankedTensorType>> wanted;
  llvm::DenseMap<std::pair<Value, Type>, SmallVector<Operation *, 4>> users;
  llvm::DenseMap<std::pair<Value, Type>, Value> tiles;
};

struct AssignLayouts : sectile::impl::AssignLayoutsBase<AssignLayouts> {
  void runOnOperation() override {
    FailureOr<Target> target = targetOf(getOperation());
    if (failed(target) || failed(checkPlain(getOperation(), *target)))
      return signalPassFailure();
    // A partition may have another number of warps than what is around it: no tile has layouts for
    // both.
    for (auto partition : getOperation().getBody().getOps<tile::PartitionOp>())
      if (failed(sinkTiles(partition.getBody())))
        return signalPassFailure();
    LayoutProblem problem(getOperation(), *target);
    problem.solve();
    Rewriter(getOperation(), problem).run();
  }
};

} // namespace
