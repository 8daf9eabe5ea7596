// What becomes of a loop: which of its loads are fetched ahead, by whom and how far, and what its
// dots do meanwhile.
#ifndef SECTILE_PASSES_LOOPS_LOOPPLAN_H
#define SECTILE_PASSES_LOOPS_LOOPPLAN_H

#include "passes/analysis/Contiguity.h"
#include "passes/loops/FetchAhead.h"

namespace sectile {

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
  /// Slots of their rings. A load may have one more, for a dot in flight, or one alone.
  unsigned depth = 0;
  /// The ring of a loop before that this one's only load goes on with; null where it has its own.
  const Ring *continued = nullptr;
  /// The dot that an iteration does for the next one; null where there is none.
  cta::DotOp early = {};

  /// Hints of the loop that it follows.
  llvm::SmallVector<llvm::StringRef, 2> hints = {};
  /// What it does not do, and why.
  llvm::SmallVector<std::pair<mlir::Operation *, std::string>> remarks = {};
};

/// The load that a tile is, or whose lines it has; null for other tiles.
mlir::Operation *loadOf(mlir::Value tile);

/// Chooses what becomes of a loop, and changes nothing. `tiles` are what dots will read from shared
/// memory, in this loop and in those that have no plan yet; `rings` are those of the loops before
/// that a producer partition fills.
LoopPlan planLoop(mlir::scf::ForOp loop, unsigned stages, const SharedTiles &tiles,
                  llvm::ArrayRef<Ring> rings, const ContiguityAnalysis &contiguity,
                  const Target &target);

} // namespace sectile

#endif
