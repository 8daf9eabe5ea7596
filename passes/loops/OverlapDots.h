// Dots of loops that are in flight while the next iteration begins.
#ifndef SECTILE_PASSES_LOOPS_OVERLAPDOTS_H
#define SECTILE_PASSES_LOOPS_OVERLAPDOTS_H

#include "ir/Target.h"
#include "ir/cta/Cta.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace sectile {

/// On dots: they are in flight while the next iteration begins. A plan leaves a slot for that.
inline constexpr llvm::StringLiteral inFlightAttr = "cta.in_flight";

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

/// The tile that a loop's body computes for a dot's a, in registers, while the dot of the iteration
/// before is in flight: that one, or else a itself. Null where it computes none.
mlir::Value computedBefore(cta::DotOp dot);

/// Whether the sums that a dot adds to are zeros.
bool beginsAsZeros(cta::DotOp dot);

/// A loop's dots, in order, if all are in its own body and by instructions of `target` that run
/// beside their threads; else none.
llvm::SmallVector<cta::DotOp> asynchronousDots(mlir::scf::ForOp loop, const Target &target);

} // namespace sectile

#endif
