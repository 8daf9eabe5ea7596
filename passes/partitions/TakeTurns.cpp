// Ping-pong: warpgroups that compute while their dots are in flight start these in turn, so that
// one multiplies while another computes.
//
//   together:   dot  | dot  |          in turn:   dot  |      | dot  |
//               dot  | dot  | ...                      | dot  |      | dot ...
//               (each at half the speed)          compute | dot | compute
//
// A warpgroup passes the turn on as soon as it has started all dots of its iteration, so the matrix
// unit has the next one waiting when these are done.
#include "ir/cta/Cta.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/analysis/Warps.h"

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
    if (partitions.empty() || warpsOf(getOperation()) <= warpsOfWarpgroup ||
        hasChannelsByHand(getOperation())) // then the program states who waits for whom
      return;
    SmallVector<Turn> turns;
    getOperation().walk([&](scf::ForOp loop) {
      if (std::optional<Turn> turn = turnOf(loop))
        turns.push_back(*turn);
    });
    if (turns.empty())
      return;
    OpBuilder builder(&getContext());
    for (auto [first, last] : turns) {
      builder.setInsertionPoint(first);
      cta::TurnWaitOp::create(builder, first.getLoc(), /*outside=*/false);
      builder.setInsertionPointAfter(last);
      cta::TurnPassOp::create(builder, last.getLoc(), /*outside=*/false);
    }
    Operation *partition = *partitions.begin();
    builder.setInsertionPointAfter(partition);
    cta::TurnPassOp::create(builder, partition->getLoc(), /*outside=*/true);
    Operation *last = getOperation().getBody().front().getTerminator();
    builder.setInsertionPoint(last);
    cta::TurnWaitOp::create(builder, last->getLoc(), /*outside=*/true);
  }

  /// The first and the last dot that a warpgroup starts in its turn.
  struct Turn {
    cta::DotStartOp first, last;
  };

  /// A loop's dots, if all are started in its body, before the first of them is waited for there,
  /// and if nothing in the loop makes the warpgroups wait for each other.
  static std::optional<Turn> turnOf(scf::ForOp loop) {
    Turn turn;
    Operation *wait = nullptr;
    WalkResult result = loop.walk([&](Operation *op) {
      if (isa<cta::BarrierOp, tile::BarrierOp>(op) || scratchOf(op).bytes > 0)
        return WalkResult::interrupt();
      if (auto dotWait = dyn_cast<cta::DotWaitOp>(op); dotWait && !wait)
        wait = dotWait;
      auto start = dyn_cast<cta::DotStartOp>(op);
      if (!start)
        return WalkResult::advance();
      Operation *user = *start->user_begin();
      if (wait || start->getBlock() != loop.getBody() ||
          !isa<cta::DotWaitOp, cta::DotStartOp>(user) || user->getBlock() != loop.getBody())
        return WalkResult::interrupt();
      if (!turn.first)
        turn.first = start;
      turn.last = start;
      return WalkResult::advance();
    });
    return turn.first && !result.wasInterrupted() ? std::optional(turn) : std::nullopt;
  }
};

} // namespace
