// Values that loops carry from one run of an operation to the next.
#ifndef SECTILE_PASSES_LOOPS_CARRIEDVALUES_H
#define SECTILE_PASSES_LOOPS_CARRIEDVALUES_H

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace sectile {

/// A value that begins as a constant and is another after each run of an operation.
struct CarriedValue {
  mlir::Value before; ///< each run
  mlir::Value after;  ///< all loops
};

/// Has the loops with counts around an operation, one at least, carry such a value. `next` is what
/// it is after a run, in the operation's own block. The loops are others afterwards.
CarriedValue carryThroughLoops(mlir::Operation *op, mlir::TypedAttr first, mlir::Value next);

} // namespace sectile

#endif
