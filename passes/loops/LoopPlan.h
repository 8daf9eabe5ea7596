// What becomes of a loop: what its dots do beside other work, which of its loads are fetched ahead,
// by whom and how far.
//
// A plan is made in two steps. A dot that is delayed reads another load, and leaves a loop of the
// last iteration after the loop; so the dots of all loops are planned first, and moved, before
// loads are.
#ifndef SECTILE_PASSES_LOOPS_LOOPPLAN_H
#define SECTILE_PASSES_LOOPS_LOOPPLAN_H

#include "passes/analysis/Contiguity.h"
#include "passes/loops/DelayDots.h"
#include "passes/loops/FetchAhead.h"

namespace sectile {

/// What a plan does not do, and why.
using Remarks = llvm::SmallVector<std::pair<mlir::Operation *, std::string>, 2>;

/// The first step: what a loop does in the next iteration, one of these at most.
struct DotSchedule {
  std::optional<DelayedPromotion> promotion = {};
  std::optional<DelayedDot> delayed = {};
  /// Hints of the loop that it follows.
  llvm::SmallVector<llvm::StringRef, 1> hints = {};
  Remarks remarks = {};
};
/// Chooses it, and changes nothing.
DotSchedule planDots(mlir::scf::ForOp loop, unsigned stages, const Target &target);

/// The second step.
struct LoopPlan {
  mlir::scf::ForOp loop;
  unsigned stages; ///< that it is asked for

  /// Its loads that are fetched ahead, each with its buffer. Those that have their first readers in
  /// one place are waited for together.
  llvm::SmallVector<FetchedLoad> loads = {};
  /// Who fills their slots: a producer partition where the loop asks for it and can have one.
  Producer producer = Producer::Copies;
  /// Whether the copy engine makes the copies of all of them.
  bool byEngine = false;
  /// Its other loads that are made ahead: by one iteration, in registers.
  llvm::SmallVector<mlir::Operation *> carried = {};
  /// Slots of the rings. A load may have one more, for a dot in flight, or one alone.
  unsigned depth = 0;
  /// The ring of a loop before that this one's only load goes on with; null where it has its own.
  const Ring *continued = nullptr;
  /// Dots that are in flight while the next iteration begins. What they read takes one more slot.
  llvm::SmallVector<cta::DotOp, 2> inFlight = {};
  /// Whether warpgroups start its dots in turn, so that one multiplies while another computes.
  bool takesTurns = false;

  /// Hints of the loop that it follows.
  llvm::SmallVector<llvm::StringRef, 2> hints = {};
  Remarks remarks = {};
};

/// The load that a tile is, or whose lines it has; null for other tiles.
mlir::Operation *loadOf(mlir::Value tile);
/// The tiles that dots of a kernel will read from shared memory. Those that no plan makes channels
/// of become buffers.
SharedTiles tilesForDots(mlir::func::FuncOp kernel, const Target &target);

/// Why the copy engine cannot copy a load of a loop's body; empty when it can.
std::string whyNotByEngine(mlir::Operation *load, mlir::Value tile,
                           const ContiguityAnalysis &contiguity, AddressAnalysis &addresses,
                           const Target &target);
/// The loads of a loop's body among `tiles`, if the engine can copy all of them.
std::optional<llvm::SmallVector<FetchedLoad>> loadsByEngine(mlir::scf::ForOp loop,
                                                            const SharedTiles &tiles,
                                                            const ContiguityAnalysis &contiguity,
                                                            const Target &target);

/// Chooses it, and changes nothing. `tiles` are those of the kernel as it is, and `rings` those of
/// the loops before that a producer partition fills.
LoopPlan planLoop(mlir::scf::ForOp loop, unsigned stages, const SharedTiles &tiles,
                  llvm::ArrayRef<Ring> rings, const ContiguityAnalysis &contiguity,
                  const Target &target);

} // namespace sectile

#endif
