// Conversions beyond cast and bitcast.
#include "dsl/Memory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <sectile/convert.h>

using namespace mlir;

namespace sectile::detail {

Value castAs(Kind from, Kind to, const Value &x, Rounding rounding, Overflow overflow,
             Location where) {
  // Into its own type only saturation changes a number.
  Overflow usual = bitsOf(to) == 8 ? Overflow::saturate : Overflow::infinity;
  if (from == to ? overflow == Overflow::infinity
                 : rounding == Rounding::nearest_even && overflow == usual)
    return cast(from, to, x, where);
  Trace &trace = Trace::current(where);
  mlir::Value value = trace.get(x, where);
  mlir::Type type = tile::withElementType(value.getType(), elementTypeOf(trace, to));
  return trace.wrap(tile::FpCastOp::create(
      trace.builder, trace.location(where), type, value,
      rounding == Rounding::toward_zero ? tile::Rounding::TowardZero : tile::Rounding::NearestEven,
      overflow == Overflow::saturate));
}

Value addressOf(const Value &ptr, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Value value = trace.get(ptr, where);
  mlir::Type type = tile::withElementType(value.getType(), trace.builder.getI64Type());
  return trace.wrap(tile::PtrToIntOp::create(trace.builder, trace.location(where), type, value));
}

Value pointerTo(Kind element, const Value &address, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Value value = trace.get(address, where);
  mlir::Type type =
      tile::withElementType(value.getType(), tile::PtrType::get(memoryElement(trace, element)));
  return trace.wrap(tile::IntToPtrOp::create(trace.builder, trace.location(where), type, value));
}

Value group(const Value &x, int bits, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Value value = trace.get(x, where);
  SmallVector<int64_t> shape(tile::shapeOf(value.getType()));
  if (shape.empty() || shape.back() % bits)
    fail(where, "sc::pack_bits packs " + Twine(bits) +
                    " bools along the last axis into one integer, which those of a tile of " +
                    shapeText(shape) + " do not fill");
  shape.back() /= bits;
  shape.push_back(bits);
  return trace.wrap(trace.builder.createOrFold<tile::ReshapeOp>(
      trace.location(where), RankedTensorType::get(shape, trace.builder.getI1Type()), value));
}

Value bitPositions(const Value &like, Kind kind, int bits, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  OpBuilder &builder = trace.builder;
  SmallVector<int64_t> shape(tile::shapeOf(trace.get(like, where).getType()));
  shape.back() = bits;
  mlir::Value positions =
      tile::ArangeOp::create(builder, loc, RankedTensorType::get({bits}, builder.getI32Type()), 0);
  positions = convert(trace, loc, positions, Kind::uint32, kind, elementTypeOf(trace, kind));
  return trace.wrap(broadcastTo(trace, loc, positions, shape));
}

Value ungroup(const Value &x, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Value value = trace.get(x, where);
  SmallVector<int64_t> shape(tile::shapeOf(value.getType()));
  int64_t bits = shape.pop_back_val();
  if (shape.empty())
    shape.push_back(1);
  shape.back() *= bits;
  return trace.wrap(trace.builder.createOrFold<tile::ReshapeOp>(
      trace.location(where), RankedTensorType::get(shape, trace.builder.getI1Type()), value));
}

} // namespace sectile::detail
