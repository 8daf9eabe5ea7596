// Ping-pong: warpgroups that compute while their dots are in flight start these in turn, so that
// one multiplies while another computes.
//
//   together:   dot  | dot  |          in turn:   dot  |      | dot  |
//               dot  | dot  | ...                      | dot  |      | dot ...
//               (each at half the speed)          compute | dot | compute
//
// A warpgroup passes the turn on as soon as it has started all dots of its iteration, so the matrix
// unit has the next one waiting when these are done.
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/loops/LoopHints.h"

namespace sectile {
#define GEN_PASS_DEF_TAKETURNS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

struct TakeTurns : sectile::impl::TakeTurnsBase<TakeTurns> {
  void runOnOperation() override {
    SmallVector<Turn> turns;
    for (scf::ForOp loop : allIn<scf::ForOp>(getOperation()))
      if (loop->removeAttr(takesTurnsAttr))
        if (std::optional<Turn> turn = turnOf(loop))
          turns.push_back(*turn);
    auto partitions = getOperation().getOps<cta::PartitionOp>();
    if (turns.empty() || partitions.empty())
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

  /// That of a loop which waits for its dots in their own iteration. Others leave the matrix unit
  /// no gap: dots stay in flight over the end of an iteration, or have nothing to run beside.
  static std::optional<Turn> turnOf(scf::ForOp loop) {
    const auto starts = llvm::to_vector(loop.getOps<cta::DotStartOp>());
    if (starts.empty() || !llvm::all_of(starts, [&](cta::DotStartOp start) {
          Operation *user = *start->user_begin();
          return isa<cta::DotWaitOp, cta::DotStartOp>(user) && user->getBlock() == loop.getBody();
        }))
      return std::nullopt;
    // Known only now: where dots are waited for, and which tiles still go through shared memory,
    // with barriers that hold the warpgroups together.
    StringRef why;
    if ((*loop.getOps<cta::DotWaitOp>().begin())->isBeforeInBlock(starts.back()))
      why = "one is waited for before another is started";
    else if (scratchIn(loop, /*without=*/{}) > 0)
      why = "a tile goes through shared memory";
    else
      return Turn{starts.front(), starts.back()};
    loop.emitRemark("warpgroups do not start the dots of this loop in turn: ") << why;
    return std::nullopt;
  }
};

} // namespace
