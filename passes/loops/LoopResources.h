// What a plan costs: shared memory for rings, and registers for dots beside other work.
#ifndef SECTILE_PASSES_LOOPS_LOOPRESOURCES_H
#define SECTILE_PASSES_LOOPS_LOOPRESOURCES_H

#include "passes/loops/LoopPlan.h"

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
  /// Whether rings of so many slots have room, if nothing else of the kernel took any.
  bool haveRoomAlone(llvm::ArrayRef<FetchedLoad> loads, unsigned depth) const;
  /// The same where a producer partition fills the rings, which then live as long as all loops
  /// around.
  unsigned depthBesideProducer(llvm::ArrayRef<FetchedLoad> loads, unsigned most,
                               mlir::scf::ForOp loop);

  /// Whether two blocks share a multiprocessor when the dot is not delayed. Then one multiplies
  /// while the other does not, and what a delay takes would leave room for one.
  bool canShareMultiprocessor(const DelayedDot &delayed, llvm::ArrayRef<FetchedLoad> loads,
                              unsigned depth, mlir::scf::ForOp loop);

  /// How many blocks share a multiprocessor with rings of so many slots, where a thread needs so
  /// many registers.
  unsigned blocksWith(llvm::ArrayRef<FetchedLoad> loads, unsigned depth, unsigned registers,
                      mlir::scf::ForOp loop);

private:
  unsigned depthThatFits(llvm::ArrayRef<FetchedLoad> loads, unsigned most, int64_t beside);
  int64_t bytesWith(llvm::ArrayRef<FetchedLoad> loads, unsigned depth);
  bool isContinued(mlir::Value tile, llvm::ArrayRef<FetchedLoad> loads);
  llvm::DenseSet<mlir::Operation *> conversionsOfReads(llvm::ArrayRef<FetchedLoad> loads);

  mlir::func::FuncOp kernel;
  const SharedTiles &tiles;
  const Target &target;
};

/// Whether a thread's registers hold two results of the dot, and what they are added to.
bool registersHold(const DelayedPromotion &promotion, const Target &target);
/// The same of the last result that the delayed dot follows from, what it is to multiply in the
/// next iteration, and its sums.
bool registersHold(const DelayedDot &delayed, const Target &target);
/// The same of a dot's sums, of its a, and of what the next iteration computes before it.
bool registersHold(cta::DotOp dot, mlir::Value computed, const Target &target);

} // namespace sectile

#endif
