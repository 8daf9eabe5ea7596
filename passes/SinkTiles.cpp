// Tiles that a partition takes from around it are made again in the partition.
#include "passes/SinkTiles.h"
#include "ir/cta/Cta.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Kernel.h"

using namespace mlir;

namespace sectile {

LogicalResult sinkTiles(Region &body) {
  DenseMap<Value, Value> made;
  OpBuilder builder = OpBuilder::atBlockBegin(&body.front());
  auto make = [&](auto &self, Value tile) -> Value {
    if (body.isAncestor(tile.getParentRegion()))
      return tile;
    if (Value known = made.lookup(tile))
      return known;
    Operation *op = tile.getDefiningOp();
    if (!op || op->getNumResults() != 1 || !isMemoryEffectFree(op) || isa<scf::IfOp>(op))
      return {};
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(isOfWarps(operand) ? self(self, operand) : operand);
      if (!operands.back())
        return {};
    }
    Operation *copy = builder.clone(*op);
    copy->setOperands(operands);
    return made[tile] = copy->getResult(0);
  };
  WalkResult result = body.walk([&](Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isOfWarps(operand.get()) || body.isAncestor(operand.get().getParentRegion()))
        continue;
      Value own = make(make, operand.get());
      if (!own) {
        InFlightDiagnostic error =
            op->emitError("takes a tile that other warps have in their registers: a partition "
                          "loads and computes its tiles itself, or reads them from a channel");
        error.attachNote(operand.get().getLoc()) << "the tile is made here";
        return WalkResult::interrupt();
      }
      operand.set(own);
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

} // namespace sectile
