// Dots, and promotions of their results, that a loop does an iteration later than it is written.
#ifndef SECTILE_PASSES_LOOPS_DELAYDOTS_H
#define SECTILE_PASSES_LOOPS_DELAYDOTS_H

#include "passes/loops/OverlapDots.h"
#include "llvm/ADT/SetVector.h"

namespace sectile {

/// What threads do with the result of a loop's only dot: scale it, and add it to what the loop
/// carries.
struct DelayedPromotion {
  cta::DotOp dot;
  llvm::SmallVector<mlir::Operation *> ops = {}; ///< in order; the last one adds
  unsigned number = 0;                           ///< of the carried value that it adds to
  llvm::SetVector<mlir::Value> others = {};      ///< what else the operations take from the loop
};
/// Has each iteration promote the result of the one before, while its own dot runs:
///
///   iteration i: sums = dot i                iteration i: sums = dot i
///                total += scales * sums                   total += scales' * sums'
///                                            afterwards:  total += scales' * sums'
///
/// sums' and scales' are those of the iteration before; in the first they are zeros.
void delayPromotion(mlir::scf::ForOp loop, const DelayedPromotion &promotion);

/// The last dot of a loop, which multiplies what follows from the others.
struct DelayedDot {
  cta::DotOp dot;
  CarriedSums sums;
  cta::DotOp after;                                  ///< the last of those that its a follows from
  llvm::SmallVector<mlir::Operation *> operand = {}; ///< what the loop makes its b by, in order
};
/// Has each iteration multiply what the one before computed, as FlashAttention-3 does (Shah et al.,
/// arXiv 2407.08608, 3.2):
///
///   iteration i: S = dot(q, k(i))            iteration i: S = dot(q, k(i))
///                p = f(S)                                 o = dot(p', v(i-1), o)
///                o = dot(p, v(i), o · s)                  p = f(S)
///                                                         o = o · s
///                                            afterwards:  o = dot(p, v(last), o)
///
/// p' is that of the iteration before. In the first it is zero, and so is what v's load gives. The
/// dot then runs beside f, and nothing is in flight over the end of an iteration.
void delayDot(mlir::scf::ForOp loop, const DelayedDot &delayed);

} // namespace sectile

#endif
