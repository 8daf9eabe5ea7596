// Lets a loop's dots be in flight while its next iteration begins: sums that nothing but the dot
// reads are waited for after the loop. Of each dot the latest is under way, the one before has read
// its operands by the end of an iteration.
#include "passes/OverlapDots.h"
#include "ir/MmaElements.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/SharedMemory.h"

namespace sectile {
#define GEN_PASS_DEF_OVERLAPDOTS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;

namespace sectile {

/// The number of the value that the loop carries for the dot's sums.
static std::optional<unsigned> carriedNumber(cta::DotOp dot) {
  auto loop = dyn_cast<scf::ForOp>(dot->getParentOp());
  auto sums = dyn_cast<BlockArgument>(dot.getAcc());
  if (!loop || !sums || sums.getOwner() != loop.getBody() || sums == loop.getInductionVar() ||
      !sums.hasOneUse() || !dot.getResult().hasOneUse())
    return std::nullopt;
  const unsigned number = sums.getArgNumber() - 1;
  if (loop.getYieldedValues()[number] != dot.getResult())
    return std::nullopt;
  return number;
}

bool isCarriedThrough(cta::DotOp dot) { return carriedNumber(dot).has_value(); }

namespace {

/// Whether what a loop writes in an iteration may be what its dot of the iteration before reads.
bool isOverwrittenNext(scf::ForOp loop, Value operand) {
  const BufferOrigin read = originOf(operand);
  if (!read.owner || loop->isProperAncestor(read.owner))
    return true;
  auto channel = dyn_cast<cta::ChannelOp>(read.owner);
  std::optional<LinearCount> at;
  unsigned depth = 0;
  if (channel && read.index) {
    depth = channel.getType().getDepth();
    at = ringPosition(read.index, depth);
  }
  WalkResult result = loop.getBody()->walk([&](Operation *op) {
    for (const BufferAccess &access : bufferAccesses(op)) {
      if (access.kind == BufferAccess::Read || access.origin.owner != read.owner)
        continue;
      std::optional<LinearCount> written;
      if (at && access.origin.index)
        written = ringPosition(access.origin.index, depth);
      // The position that the dot reads is one further in each iteration.
      if (!written || written->base != at->base || !at->base ||
          (written->offset + depth - at->offset) % depth == depth - 1)
        return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return result.wasInterrupted();
}

struct OverlapDots : sectile::impl::OverlapDotsBase<OverlapDots> {
  void runOnOperation() override {
    FailureOr<Target> found = targetOf(getOperation());
    if (failed(found))
      return signalPassFailure();
    target = *found;
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    llvm::for_each(loops, [&](scf::ForOp loop) { overlap(loop); });
  }

  bool canBeInFlight(cta::DotOp dot) const {
    const MmaInstruction *instruction = instructionOf(dot, target);
    if (!instruction || instruction->bHome != OperandHome::Shared ||
        instruction->promotionInterval || !isCarriedThrough(dot))
      return false;
    auto loop = cast<scf::ForOp>(dot->getParentOp());
    return llvm::all_of(ArrayRef<Value>{dot.getA(), dot.getB()}, [&](Value operand) {
      return isa<cta::BufferType>(operand.getType()) && !isOverwrittenNext(loop, operand);
    });
  }

  void overlap(scf::ForOp loop) {
    SmallVector<cta::DotOp> dots;
    for (auto dot : loop.getBody()->getOps<cta::DotOp>())
      if (canBeInFlight(dot))
        dots.push_back(dot);
    if (dots.empty())
      return;
    OpBuilder after(loop->getContext());
    after.setInsertionPointAfter(loop);
    Operation *last = nullptr;
    for (cta::DotOp dot : dots) {
      const unsigned number = *carriedNumber(dot);
      const Location loc = dot.getLoc();
      auto inFlight = cta::InFlightType::get(loop->getContext(), dot.getType());
      OpBuilder builder(loop);
      OpOperand &init = loop.getInitArgsMutable()[number];
      init.set(cta::DotBeginOp::create(builder, loc, inFlight, init.get()));
      loop.getRegionIterArg(number).setType(inFlight);
      builder.setInsertionPoint(dot);
      auto start =
          cta::DotStartOp::create(builder, loc, inFlight, dot.getA(), dot.getB(),
                                  dot->getOperand(2), dot.getInstructionAttr(), dot.getPrecision());
      dot.getResult().replaceAllUsesWith(start.getResult());
      dot.erase();
      last = start;
      Value result = loop->getResult(number);
      result.setType(inFlight);
      auto wait = cta::DotWaitOp::create(after, loc, inFlight.getTile(), result);
      result.replaceAllUsesExcept(wait.getResult(), wait);
    }
    OpBuilder builder(last->getContext());
    builder.setInsertionPointAfter(last);
    cta::DotsWaitOp::create(builder, last->getLoc(), dots.size());
  }

  Target target;
};

} // namespace

} // namespace sectile
