// Has warpgroups take turns in starting their dots, where each computes beside its own: one
// multiplies while another computes.
//
//   together:   dot  | dot  |          in turn:   dot  |      | dot  |
//               dot  | dot  | ...                      | dot  |      | dot ...
//               (each at half the speed)          compute | dot | compute
//
// A warpgroup passes the turn on as soon as it has started, so the matrix unit has the next dot
// waiting when this one is done.
#include "ir/cta/Cta.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"

namespace sectile {
#define GEN_PASS_DEF_TAKETURNS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

struct TakeTurns : sectile::impl::TakeTurnsBase<TakeTurns> {
  void runOnOperation() override {
    // Other loops have barriers of all their warps.
    auto partitions = getOperation().getOps<cta::PartitionOp>();
    constexpr unsigned warpgroup = 4;
    if (partitions.empty() || warpsOf(getOperation()) <= warpgroup || isByHand())
      return;
    SmallVector<cta::DotStartOp> starts;
    getOperation().walk([&](scf::ForOp loop) {
      if (cta::DotStartOp start = onlyStart(loop))
        starts.push_back(start);
    });
    if (starts.empty())
      return;
    OpBuilder builder(&getContext());
    for (cta::DotStartOp start : starts) {
      builder.setInsertionPoint(start);
      cta::TurnWaitOp::create(builder, start.getLoc(), /*outside=*/false);
      builder.setInsertionPointAfter(start);
      cta::TurnPassOp::create(builder, start.getLoc(), /*outside=*/false);
    }
    Operation *partition = *partitions.begin();
    builder.setInsertionPointAfter(partition);
    cta::TurnPassOp::create(builder, partition->getLoc(), /*outside=*/true);
    Operation *last = getOperation().getBody().front().getTerminator();
    builder.setInsertionPoint(last);
    cta::TurnWaitOp::create(builder, last->getLoc(), /*outside=*/true);
  }

  /// Whether the program states itself who waits for whom.
  bool isByHand() {
    return getOperation()
        ->walk([](cta::ChannelOp channel) {
          return channel.getByHand() ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  /// The loop's only dot, if it is started in the loop's body and waited for there.
  static cta::DotStartOp onlyStart(scf::ForOp loop) {
    SmallVector<cta::DotStartOp> starts;
    loop.walk([&](cta::DotStartOp start) { starts.push_back(start); });
    if (starts.size() != 1 || starts[0]->getBlock() != loop.getBody())
      return nullptr;
    return llvm::any_of(starts[0]->getUsers(),
                        [&](Operation *user) {
                          return isa<cta::DotWaitOp>(user) && user->getBlock() == loop.getBody();
                        })
               ? starts[0]
               : nullptr;
  }
};

} // namespace
