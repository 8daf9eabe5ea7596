// What scalar arithmetic gives for numbers, as a launch would compute it.
#ifndef SECTILE_PASSES_ANALYSIS_SCALARS_H
#define SECTILE_PASSES_ANALYSIS_SCALARS_H

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace sectile {

/// A signed number of the type's bits, where it is known.
using Number = std::optional<int64_t>;

/// Bits of an integer or an index.
unsigned bitsOfScalar(mlir::Type type);

/// The lowest bits of a number, with their sign and without one.
int64_t signExtended(uint64_t value, unsigned bits);
uint64_t zeroExtended(int64_t value, unsigned bits);

bool compare(mlir::arith::CmpIPredicate predicate, int64_t a, int64_t b, unsigned bits);

/// Whether `evaluate` knows the operation: arithmetic of integers, comparisons, constants.
bool isScalarArithmetic(mlir::Operation *op);

/// The result of such an operation; nothing where it is not known or not defined.
Number evaluate(mlir::Operation *op, llvm::ArrayRef<Number> operands);

} // namespace sectile

#endif
