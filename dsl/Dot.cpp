// Matrix products.
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include <sectile/shape.h>

using namespace mlir;

namespace sectile::detail {

static_assert(static_cast<int>(Precision::ieee) == static_cast<int>(tile::Precision::IEEE));

static bool isFp8(Kind kind) { return isFloat(kind) && bitsOf(kind) == 8; }

static void checkTypes(Kind a, Kind b, Kind acc, Location where) {
  std::string names = std::string(nameOf(a)) + " and " + std::string(nameOf(b));
  if (a != b && !(isFp8(a) && isFp8(b)))
    fail(where, "sc::dot of " + names +
                    ": both operands have one type, so convert one, as in "
                    "sc::cast<sc::half>(x)");
  if (!isFloat(a) && a != Kind::int8)
    fail(where,
         "sc::dot of " + names + ": operands are floats or int8; convert them with sc::cast");
  bool fits = a == Kind::int8      ? acc == Kind::int32
              : a == Kind::float64 ? acc == Kind::float64
              : a == Kind::float16 ? acc == Kind::float32 || acc == Kind::float16
                                   : acc == Kind::float32;
  if (!fits)
    fail(where, "sc::dot of " + names + " cannot accumulate in " + std::string(nameOf(acc)) +
                    ": the accumulator is " +
                    (a == Kind::int8      ? "int32"
                     : a == Kind::float64 ? "double"
                     : a == Kind::float16 ? "float or half"
                                          : "float") +
                    ", as in sc::zeros<...>(m, n)");
}

Value dot(Kind a, const Value &aValue, Kind b, const Value &bValue, Kind acc, const Value *accValue,
          Precision precision, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  checkTypes(a, b, acc, where);
  mlir::Value left = trace.get(aValue, where), right = trace.get(bValue, where);
  ArrayRef<int64_t> leftShape = tile::shapeOf(left.getType());
  ArrayRef<int64_t> rightShape = tile::shapeOf(right.getType());
  std::string shapes = shapeText(leftShape) + " and " + shapeText(rightShape);
  if (leftShape.size() != 2 || rightShape.size() != 2)
    fail(where, "sc::dot of " + shapes + ": operands are [M, K] and [K, N]");
  if (leftShape[1] != rightShape[0])
    fail(where, "sc::dot of " + shapes + ": the inner extents " + Twine(leftShape[1]) + " and " +
                    Twine(rightShape[0]) +
                    " differ; operands are [M, K] and [K, N], and sc::trans "
                    "swaps the axes of one");
  SmallVector<int64_t> shape = {leftShape[0], rightShape[1]};
  mlir::Value sum;
  if (accValue) {
    sum = trace.get(*accValue, where);
    if (tile::shapeOf(sum.getType()) != ArrayRef<int64_t>(shape))
      fail(where, "sc::dot of " + shapes + " gives " + shapeText(shape) +
                      ", but its accumulator is " + shapeText(tile::shapeOf(sum.getType())));
  } else {
    sum = constantOf(trace, loc, RankedTensorType::get(shape, elementTypeOf(trace, acc)), 0);
  }
  return trace.wrap(tile::DotOp::create(trace.builder, loc, sum.getType(), left, right, sum,
                                        static_cast<tile::Precision>(precision)));
}

} // namespace sectile::detail
