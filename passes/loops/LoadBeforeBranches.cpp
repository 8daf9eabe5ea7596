// Moves what dots in a branch of a loop multiply ahead of the branch. A plan fetches the loads of a
// loop's body ahead; a load that reads nothing where its branch is not taken is one of these, and
// its ring has a use in every iteration, whether or not somebody reads it.
//
// It comes before layouts, which depend on what can be fetched ahead.
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/loops/FetchAhead.h"
#include "llvm/ADT/SetVector.h"

namespace sectile {
#define GEN_PASS_DEF_LOADBEFOREBRANCHES
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

/// The loads in branches of a loop that dots there multiply, or that these are computed from, in
/// the order of the source.
SmallVector<Operation *> loadsOfBranches(scf::ForOp loop) {
  SmallVector<Value> work;
  loop.walk([&](cta::DotOp dot) {
    if (dot->getParentOfType<LoopLikeOpInterface>() == loop)
      work.append({dot.getA(), dot.getB()});
  });
  llvm::SetVector<Operation *> seen;
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || op->getParentOp() == loop || op->getParentOfType<LoopLikeOpInterface>() != loop ||
        !seen.insert(op))
      continue;
    if (op->hasTrait<OpTrait::Elementwise>() ||
        isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp, tile::PermuteOp, tile::JoinOp,
            cta::AlongKOp>(op))
      llvm::append_range(work, op->getOperands());
  }
  SmallVector<Operation *> loads;
  loop.walk([&](Operation *op) {
    if (seen.contains(op) && isLoad(op) && isa<RankedTensorType>(op->getResult(0).getType()))
      loads.push_back(op);
  });
  return loads;
}

struct LoadBeforeBranches : sectile::impl::LoadBeforeBranchesBase<LoadBeforeBranches> {
  void runOnOperation() override {
    FailureOr<Target> target = targetOf(getOperation());
    if (failed(target))
      return signalPassFailure();
    if (getOperation()->hasAttr(cta::asWrittenAttr) || hasChannelsByHand(getOperation()))
      return;
    const Producer producer = target->asyncCopy ? Producer::Copies : Producer::Registers;
    std::optional<AddressAnalysis> addresses;
    for (scf::ForOp loop : allIn<scf::ForOp>(getOperation())) {
      // A partition fills its channels itself.
      if (stagesOf(loop) < 2 || loop->getParentOfType<tile::PartitionOp>() ||
          anyIn(loop, [](tile::PartitionOp) { return true; }))
        continue;
      for (Operation *load : loadsOfBranches(loop)) {
        if (!addresses)
          addresses.emplace(getOperation());
        if (!whyNotAhead(loop, load, producer, *addresses).empty())
          continue;
        auto block = dyn_cast<tile::LoadBlockOp>(load);
        const bool isOnly = block ? !block.getWhen() : !cast<tile::LoadOp>(load).getMask();
        moveOutOfBranches(loop, load);
        load->setAttr(ofBranchAttr, BoolAttr::get(&getContext(), isOnly));
      }
    }
  }
};

} // namespace
