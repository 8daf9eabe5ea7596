// Matrix products of the microscaling formats.
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include <sectile/dot_scaled.h>

using namespace mlir;

namespace sectile::detail {

/// Neighbours along K that share a scale.
static constexpr int64_t sharing = 32;

Value dotScaled(const ScaledOperand &a, const ScaledOperand &b, const Value *acc, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  mlir::Value left = trace.get(a.tile, where), right = trace.get(b.tile, where);
  ArrayRef<int64_t> leftShape = tile::shapeOf(left.getType());
  ArrayRef<int64_t> rightShape = tile::shapeOf(right.getType());
  std::string shapes = shapeText(leftShape) + " and " + shapeText(rightShape);
  if (leftShape.size() != 2 || rightShape.size() != 2)
    fail(where, "sc::dot_scaled of " + shapes + ": operands are [M, K] and [K, N]");
  auto packing = [](const ScaledOperand &x) { return x.kind == Kind::uint8 ? 2 : 1; };
  int64_t k = leftShape[1] * packing(a), otherK = rightShape[0] * packing(b);
  if (k != otherK)
    fail(where, "sc::dot_scaled of " + shapes + ": the inner extents " + Twine(k) + " and " +
                    Twine(otherK) +
                    " differ; operands are [M, K] and [K, N], and a byte of packed e2m1 is two "
                    "along K");
  auto scaleOf = [&](const ScaledOperand &x, int64_t rows, const char *whose) -> mlir::Value {
    if (!x.scale)
      return {};
    if (k % sharing)
      fail(where, "sc::dot_scaled of " + shapes + ": K = " + Twine(k) + " is no multiple of " +
                      Twine(sharing) + ", the number of elements that share a scale");
    mlir::Value scale = trace.get(*x.scale, where);
    SmallVector<int64_t> expected = {rows, k / sharing};
    if (tile::shapeOf(scale.getType()) != ArrayRef<int64_t>(expected))
      fail(where, "sc::dot_scaled of " + shapes + " takes scales of " + shapeText(expected) +
                      " for " + whose + ", K / 32], not " +
                      shapeText(tile::shapeOf(scale.getType())));
    return scale;
  };
  mlir::Value leftScale = scaleOf(a, leftShape[0], "its first operand, [M");
  mlir::Value rightScale = scaleOf(b, rightShape[1], "its second operand, [N");
  SmallVector<int64_t> shape = {leftShape[0], rightShape[1]};
  mlir::Value sum;
  if (acc) {
    sum = trace.get(*acc, where);
    if (tile::shapeOf(sum.getType()) != ArrayRef<int64_t>(shape))
      fail(where, "sc::dot_scaled of " + shapes + " gives " + shapeText(shape) +
                      ", but its accumulator is " + shapeText(tile::shapeOf(sum.getType())));
  } else {
    sum = constantOf(trace, loc, RankedTensorType::get(shape, trace.builder.getF32Type()), 0);
  }
  return trace.wrap(tile::DotScaledOp::create(trace.builder, loc, sum.getType(), left, leftScale,
                                              right, rightScale, sum));
}

} // namespace sectile::detail
