// Dots of loops that are in flight while the next iteration begins.
#ifndef SECTILE_PASSES_OVERLAPDOTS_H
#define SECTILE_PASSES_OVERLAPDOTS_H

#include "ir/cta/Cta.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace sectile {

/// Whether a loop carries the dot's sums from one iteration to the next and does nothing else with
/// them.
bool isCarriedThrough(cta::DotOp dot);

} // namespace sectile

#endif
