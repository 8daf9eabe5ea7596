// The contract of integer overflow, in the one place that holds it: integers wrap around at their
// width, whatever they are used for. Only `Int`, the language's type for sizes, places and counts,
// has no width of its own, so what is computed in it has to fit where it becomes an address, an
// index, a loop's bound or a divisor. An Int that does not fit still wraps where it is compared or
// split into bits. Where it is divided or clamped from below, the result is of what it has wrapped
// to if the operands let it exceed its type many times over, as hashes do; otherwise nobody expects
// it to wrap, and the result of one that does is anything.
//
// The language marks arithmetic of Int. Analyses then take for granted that places fit; the
// interpreter and the checked mode report those that do not.
#ifndef SECTILE_IR_TILE_OVERFLOW_H
#define SECTILE_IR_TILE_OVERFLOW_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

namespace sectile::tile {

/// On integer arithmetic: it is of Int.
inline constexpr llvm::StringLiteral fitsAttr = "tile.fits";

inline bool isMarkedToFit(mlir::Operation &op) { return op.hasAttr(fitsAttr); }

/// Whether it gives a quotient or a remainder, for which it matters whether operands have wrapped.
inline bool isDivision(mlir::Operation &op) {
  return mlir::isa<mlir::arith::DivSIOp, mlir::arith::DivUIOp, mlir::arith::FloorDivSIOp,
                   mlir::arith::RemSIOp, mlir::arith::RemUIOp>(op);
}

/// Arithmetic that is marked to fit, folded where its operands are constants.
template <class Op>
mlir::Value createToFit(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value a,
                        mlir::Value b) {
  Op op = Op::create(builder, loc, a, b);
  op->setDiscardableAttr(fitsAttr, builder.getUnitAttr());
  llvm::SmallVector<mlir::Value, 1> folded;
  // Folded in place there is nothing instead.
  if (failed(builder.tryFold(op, folded)) || folded.empty())
    return op;
  op.erase();
  return folded.front();
}

} // namespace sectile::tile

#endif
