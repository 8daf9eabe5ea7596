// Removal of what a pass leaves without use: operations, and values that loops carry for nothing.
#ifndef SECTILE_PASSES_DEADCODE_H
#define SECTILE_PASSES_DEADCODE_H

#include "mlir/IR/Operation.h"

namespace sectile {

/// Erases the operations in `root` without effect whose results nobody needs, and what `scf.for`
/// carries from iteration to iteration only to compute itself.
void eraseDeadCode(mlir::Operation *root);

} // namespace sectile

#endif
