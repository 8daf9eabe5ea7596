// The contract of integer overflow, in the one place that holds it: integers wrap around at their
// width, whatever they are used for. Only `Int`, the language's type for sizes, places and counts,
// has no width of its own, so its sums, differences, products and shifts have to fit. One that does
// not fit still wraps where it is divided, compared or split into bits, as in a hash; it must not
// become an address, an index, a loop's bound or a divisor. The language marks such arithmetic;
// analyses may then take for granted that places fit, and the interpreter and the checked mode
// report those that do not.
#ifndef SECTILE_IR_TILE_OVERFLOW_H
#define SECTILE_IR_TILE_OVERFLOW_H

#include "mlir/IR/Builders.h"

namespace sectile::tile {

/// On integer arithmetic: its result fits wherever it becomes a place, a size or a divisor. On a
/// division: so does its dividend.
inline constexpr llvm::StringLiteral fitsAttr = "tile.fits";

inline bool isMarkedToFit(mlir::Operation &op) { return op.hasAttr(fitsAttr); }

/// Arithmetic that is marked to fit, folded where its operands are constants.
template <class Op>
mlir::Value createToFit(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value a,
                        mlir::Value b) {
  Op op = Op::create(builder, loc, a, b);
  op->setDiscardableAttr(fitsAttr, builder.getUnitAttr());
  llvm::SmallVector<mlir::Value, 1> folded;
  if (failed(builder.tryFold(op, folded)))
    return op;
  op.erase();
  return folded.front();
}

} // namespace sectile::tile

#endif
