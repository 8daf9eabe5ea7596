// Matrix products.
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include <sectile/shape.h>

using namespace mlir;

namespace sectile::detail {

static_assert(static_cast<int>(Precision::ieee) == static_cast<int>(tile::Precision::IEEE));
static_assert(static_cast<int>(Precision::bf16x6) == static_cast<int>(tile::Precision::BF16x6));

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
  size_t rank = leftShape.size();
  if (rank < 2 || rank > 3 || rightShape.size() != rank)
    fail(where, "sc::dot of " + shapes + ": operands are [M, K] and [K, N], or [B, M, K] and " +
                    "[B, K, N]; sc::expand inserts an axis, sc::broadcast_to repeats a matrix");
  int64_t inner = leftShape[rank - 1], otherInner = rightShape[rank - 2];
  if (inner != otherInner)
    fail(where, "sc::dot of " + shapes + ": the inner extents " + Twine(inner) + " and " +
                    Twine(otherInner) +
                    " differ; operands are [M, K] and [K, N], and sc::trans "
                    "swaps the axes of one");
  if (rank == 3 && leftShape[0] != rightShape[0])
    fail(where, "sc::dot of " + shapes + ": there are " + Twine(leftShape[0]) + " matrices and " +
                    Twine(rightShape[0]) + "; operands are [B, M, K] and [B, K, N], and " +
                    "sc::broadcast_to repeats one matrix");
  SmallVector<int64_t> shape(leftShape.drop_back());
  shape.push_back(rightShape.back());
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
