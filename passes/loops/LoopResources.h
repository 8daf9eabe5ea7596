// What fetching ahead costs: shared memory for rings, and registers for dots in flight.
#ifndef SECTILE_PASSES_LOOPS_LOOPRESOURCES_H
#define SECTILE_PASSES_LOOPS_LOOPRESOURCES_H

#include "passes/loops/FetchAhead.h"
#include "passes/loops/OverlapDots.h"

namespace sectile {

/// Answers for a kernel whose dots will read `tiles` from shared memory, and which has channels for
/// loops that are done with already.
class LoopResources {
public:
  LoopResources(mlir::func::FuncOp kernel, const SharedTiles &tiles, const Target &target)
      : kernel(kernel), tiles(tiles), target(target) {}

  /// How many slots for each load, up to `most`, shared memory has room for beside what is in
  /// `around`, an operation during which the rings live.
  unsigned depthThatFits(llvm::ArrayRef<FetchedLoad> loads, unsigned most, mlir::Operation *around);
  /// The same where a producer partition fills the rings, which then live as long as all loops
  /// around.
  unsigned depthBesideProducer(llvm::ArrayRef<FetchedLoad> loads, unsigned most,
                               mlir::scf::ForOp loop);

  /// Whether two blocks share a multiprocessor when no dots overlap. Then one multiplies while the
  /// other does not, and what overlapping takes would leave room for one.
  bool canShareMultiprocessor(DotPair pair, llvm::ArrayRef<FetchedLoad> loads, unsigned depth,
                              mlir::scf::ForOp loop);

  /// Whether a thread's registers hold what two dots have at once when they overlap: both results
  /// of the early one, what is made of one, and the late one's sums.
  bool registersHold(DotPair pair, bool byEngine);

private:
  unsigned depthThatFits(llvm::ArrayRef<FetchedLoad> loads, unsigned most, int64_t beside);
  int64_t bytesWith(llvm::ArrayRef<FetchedLoad> loads, unsigned depth);
  bool isContinued(mlir::Value tile, llvm::ArrayRef<FetchedLoad> loads);
  llvm::DenseSet<mlir::Operation *> stagedConversions();

  mlir::func::FuncOp kernel;
  const SharedTiles &tiles;
  const Target &target;
};

} // namespace sectile

#endif
