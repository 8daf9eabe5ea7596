// Which dots are in flight where a kernel waits for one of them.
#ifndef SECTILE_PASSES_ANALYSIS_DOTSINFLIGHT_H
#define SECTILE_PASSES_ANALYSIS_DOTSINFLIGHT_H

#include "ir/cta/Cta.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sectile {

/// Has each wait for a dot leave those in flight that were started after it: as many as on the path
/// with the fewest. Fails, with an error there, where a dot is started again while it may still
/// read the registers of its A: they are the same for all iterations.
mlir::LogicalResult nameWaitsForDots(mlir::func::FuncOp kernel);

/// Fails, with an error there, where an operation writes the registers of a dot's A while the dot
/// may still read them: those of an iteration are those of the next one, too. Waits have their
/// numbers by then. Dots with registers of their own are free of that.
mlir::LogicalResult checkOperandsInFlight(mlir::func::FuncOp kernel);

} // namespace sectile

#endif
