// Sets how many elements each memory access of a thread moves at once.
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/analysis/VectorLength.h"
#include "passes/checks/Check.h"
#include "llvm/ADT/TypeSwitch.h"

namespace sectile {
#define GEN_PASS_DEF_SELECTVECTORS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

/// The tile that says where an access goes.
template <typename Op> Value placesOf(Op op) {
  if constexpr (requires { op.getOffsets(); })
    return op.getOffsets();
  else
    return op.getPtr();
}

struct SelectVectors : sectile::impl::SelectVectorsBase<SelectVectors> {
  void runOnOperation() override {
    FailureOr<Target> target = targetOf(getOperation());
    if (failed(target) || failed(checkLayouts(getOperation(), *target)))
      return signalPassFailure();
    const auto &contiguity = getAnalysis<ContiguityAnalysis>();
    auto select = [&](auto op) -> LogicalResult {
      const Layout *layout = cta::layoutOf(placesOf(op).getType());
      if (!layout)
        return success(); // a scalar
      // Who made an asynchronous copy of a load knew more than its addresses show.
      if (isa<cta::AsyncCopyOp>(op) && op.getVector())
        return success();
      unsigned length = vectorLength(contiguityOf(contiguity, op), *layout, *target);
      Builder builder(op);
      op.setVectorAttr(length > 1 ? builder.getI32IntegerAttr(length) : IntegerAttr());
      // Who made an asynchronous copy has to know that it can be one.
      if (const int64_t bytes = length * contiguityOf(contiguity, op).elementBytes;
          isa<cta::AsyncCopyOp>(op) && bytes < 4)
        return op.emitOpError("moves ")
               << bytes << " bytes at once; asynchronous copies move 4, 8 or 16";
      return success();
    };
    // 16-bit floats are added in pairs, of which a chip's word has two.
    auto pair = [&](tile::AtomicRMWOp op) {
      const Layout *layout = cta::layoutOf(op.getType());
      if (!layout || op.getKind() != tile::AtomicKind::FAdd || cta::elementBits(op.getType()) != 16)
        return;
      if (vectorLength(contiguityOf(contiguity, op), *layout, *target) > 1)
        op.setVectorAttr(Builder(op).getI32IntegerAttr(2));
    };
    getOperation().walk(pair);
    WalkResult result = getOperation().walk([&](Operation *op) {
      return TypeSwitch<Operation *, WalkResult>(op)
          .Case<tile::LoadOp, tile::StoreOp, cta::AsyncCopyOp, cta::BufferLoadOp,
                cta::BufferStoreOp>([&](auto access) { return select(access); })
          .Default([](Operation *) { return WalkResult::advance(); });
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
