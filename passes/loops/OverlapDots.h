// Dots of loops that are in flight while the next iteration begins.
#ifndef SECTILE_PASSES_LOOPS_OVERLAPDOTS_H
#define SECTILE_PASSES_LOOPS_OVERLAPDOTS_H

#include "ir/Target.h"
#include "ir/cta/Cta.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace sectile {

/// Sums that a loop carries from one iteration to the next, and does nothing else with than to
/// rescale them and to have the dot add to them.
struct CarriedSums {
  unsigned number;                                   ///< of the value that the loop carries
  llvm::SmallVector<mlir::Operation *, 1> rescaling; ///< elementwise, in order; often none
};
std::optional<CarriedSums> carriedSums(cta::DotOp dot);

/// Whether the loop's body computes a dot's a, in registers, of one tile whose elements are of the
/// sums' type, by operations for it alone.
bool isPacked(cta::DotOp dot);

/// The dots of a loop that can run beside what is computed between them. The early one multiplies
/// what no iteration before has changed; the late one multiplies what follows from its result,
/// which is in registers, and adds to sums that the loop carries.
struct DotPair {
  cta::DotOp early, late;
};
/// The loop's two dots, if it has no others, and both are by instructions of `target` that run
/// beside their threads.
std::optional<DotPair> dotPairOf(mlir::scf::ForOp loop, const Target &target);

} // namespace sectile

#endif
