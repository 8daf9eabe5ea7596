// Moving elements within tiles. What costs nothing is made of joins, reshapes and permutes.
#include "dsl/Axes.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <sectile/move.h>

using namespace mlir;

namespace sectile::detail {

unsigned axisOf(const Extent &axis, ArrayRef<int64_t> shape, StringRef what) {
  int64_t rank = shape.size(), at = axis.number < 0 ? axis.number + rank : axis.number;
  if (at < 0 || at >= rank)
    fail(axis.where,
         what + " along axis " + Twine(axis.number) + " of a tile of rank " + Twine(rank));
  return at;
}

mlir::Value positionsAlong(Trace &trace, mlir::Location loc, ArrayRef<int64_t> shape,
                           unsigned axis) {
  mlir::Type i32 = trace.builder.getI32Type();
  SmallVector<int64_t> expanded(shape.size(), 1);
  expanded[axis] = shape[axis];
  mlir::Value value =
      tile::ArangeOp::create(trace.builder, loc, RankedTensorType::get({shape[axis]}, i32), 0);
  value =
      trace.builder.createOrFold<tile::ReshapeOp>(loc, RankedTensorType::get(expanded, i32), value);
  return broadcastTo(trace, loc, value, shape);
}

mlir::Value onlyElement(Trace &trace, mlir::Location loc, mlir::Value tile) {
  OpBuilder &builder = trace.builder;
  mlir::Type element = getElementTypeOrSelf(tile.getType());
  auto reduce = tile::ReduceOp::create(builder, loc, element, tile, 0u);
  OpBuilder::InsertionGuard guard(builder);
  Block *body = builder.createBlock(&reduce.getCombiner(), {}, {element, element}, {loc, loc});
  tile::YieldOp::create(builder, loc, body->getArgument(0));
  return reduce.getResult(0);
}

static RankedTensorType tileOf(ArrayRef<int64_t> shape, mlir::Value like) {
  return RankedTensorType::get(shape, getElementTypeOrSelf(like.getType()));
}

static mlir::Value reshaped(Trace &trace, mlir::Location loc, mlir::Value value,
                            ArrayRef<int64_t> shape) {
  return trace.builder.createOrFold<tile::ReshapeOp>(loc, tileOf(shape, value), value);
}

/// Both as values of one type.
static SmallVector<mlir::Value> alike(Trace &trace, Kind kind, const Value &a, const Value &b,
                                      Location where) {
  Operand left(0, where), right(0, where);
  left.value = &a;
  right.value = &b;
  left.kind = right.kind = kind;
  return convertAll(trace, kind, {&left, &right}, where);
}

/// The pair of two tiles of one shape; numbers count as tiles of [1].
static mlir::Value pairOf(Trace &trace, Kind kind, const Value &a, const Value &b, StringRef what,
                          Location where) {
  mlir::Location loc = trace.location(where);
  SmallVector<mlir::Value> values = alike(trace, kind, a, b, where);
  SmallVector<int64_t> shape = broadcastShape(values, what, where);
  if (shape.empty())
    shape = {1};
  for (mlir::Value &value : values)
    value = broadcastTo(trace, loc, value, shape);
  shape.push_back(2);
  return tile::JoinOp::create(trace.builder, loc, tileOf(shape, values[0]), values[0], values[1]);
}

Value join(Kind kind, const Value &a, const Value &b, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Value pair = pairOf(trace, kind, a, b, "sc::join", where);
  if (shapeOf(a, where).empty() && shapeOf(b, where).empty())
    pair = reshaped(trace, trace.location(where), pair, {2});
  return trace.wrap(pair);
}

void split(const Value &x, Value &first, Value &second, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  mlir::Value value = trace.get(x, where);
  ArrayRef<int64_t> shape = tile::shapeOf(value.getType());
  if (shape.empty() || shape.back() != 2)
    fail(where, "sc::split of " + shapeText(shape) +
                    ": the last axis must have extent 2; sc::reshape makes two axes of one, and "
                    "sc::permute moves one to the end");
  bool toNumbers = shape.size() == 1;
  if (toNumbers)
    value = reshaped(trace, loc, value, {1, 2});
  mlir::Type half = tileOf(tile::shapeOf(value.getType()).drop_back(), value);
  auto op = tile::SplitOp::create(trace.builder, loc, half, half, value);
  mlir::Value one = op.getFirst(), other = op.getSecond();
  if (toNumbers) {
    one = onlyElement(trace, loc, one);
    other = onlyElement(trace, loc, other);
  }
  first = trace.wrap(one);
  second = trace.wrap(other);
}

Value interleave(Kind kind, const Value &a, const Value &b, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Value pair = pairOf(trace, kind, a, b, "sc::interleave", where);
  SmallVector<int64_t> shape(tile::shapeOf(pair.getType()).drop_back());
  shape.back() *= 2;
  return trace.wrap(reshaped(trace, trace.location(where), pair, shape));
}

Value concatenate(Kind kind, const Value &a, const Value &b, const Extent &axis) {
  Location where = axis.where;
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  SmallVector<mlir::Value> values = alike(trace, kind, a, b, where);
  mlir::Value left = values[0], right = values[1];
  SmallVector<int64_t> shape(tile::shapeOf(left.getType()));
  if (tile::shapeOf(right.getType()) != ArrayRef<int64_t>(shape))
    fail(where, "sc::cat of " + shapeText(shape) + " and " +
                    shapeText(tile::shapeOf(right.getType())) +
                    ": the two must have one shape, of at least one axis");
  unsigned at = axisOf(axis, shape, "sc::cat");
  // Which of the two is the slower part of the axis.
  SmallVector<int64_t> pairShape(shape), slowShape(shape);
  pairShape.push_back(2);
  slowShape.insert(slowShape.begin() + at, 2);
  SmallVector<int32_t> order;
  for (unsigned i = 0; i < shape.size(); ++i) {
    if (i == at)
      order.push_back(shape.size());
    order.push_back(i);
  }
  mlir::Value pair = tile::JoinOp::create(trace.builder, loc, tileOf(pairShape, left), left, right);
  mlir::Value slow = trace.builder.createOrFold<tile::PermuteOp>(
      loc, tileOf(slowShape, left), pair, trace.builder.getDenseI32ArrayAttr(order));
  shape[at] *= 2;
  return trace.wrap(reshaped(trace, loc, slow, shape));
}

Value flip(const Value &x, const Extent &axis) {
  Trace &trace = Trace::current(axis.where);
  mlir::Location loc = trace.location(axis.where);
  mlir::Value value = trace.get(x, axis.where);
  ArrayRef<int64_t> shape = tile::shapeOf(value.getType());
  unsigned at = axisOf(axis, shape, "sc::flip");
  if (shape[at] == 1)
    return x;
  mlir::Value positions = positionsAlong(trace, loc, shape, at);
  mlir::Value last = constantOf(trace, loc, positions.getType(), shape[at] - 1);
  mlir::Value mirrored = arith::SubIOp::create(trace.builder, loc, last, positions);
  return trace.wrap(
      tile::GatherOp::create(trace.builder, loc, value.getType(), value, mirrored, at, nullptr));
}

Value squeeze(const Value &x, const Extent &axis) {
  Trace &trace = Trace::current(axis.where);
  mlir::Location loc = trace.location(axis.where);
  mlir::Value value = trace.get(x, axis.where);
  SmallVector<int64_t> shape(tile::shapeOf(value.getType()));
  unsigned at = axisOf(axis, shape, "sc::squeeze");
  if (shape[at] != 1)
    fail(axis.where, "sc::squeeze of axis " + Twine(axis.number) + " of " + shapeText(shape) +
                         ": its extent is " + Twine(shape[at]) + ", not 1");
  if (shape.size() == 1)
    return trace.wrap(onlyElement(trace, loc, value));
  shape.erase(shape.begin() + at);
  return trace.wrap(reshaped(trace, loc, value, shape));
}

Value ravel(const Value &x, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  mlir::Value value = trace.get(x, where);
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return trace.wrap(broadcastTo(trace, loc, value, {1}));
  return trace.wrap(reshaped(trace, loc, value, {type.getNumElements()}));
}

/// The part of an axis that is one of `count` alike, a power of two: each split takes the lowest
/// bit of its number.
static mlir::Value partOf(Trace &trace, mlir::Location loc, mlir::Value value, unsigned axis,
                          int64_t count, int64_t number) {
  SmallVector<int64_t> shape(tile::shapeOf(value.getType()));
  const unsigned rank = shape.size();
  shape[axis] /= count;
  shape.insert(shape.begin() + axis, count);
  value = reshaped(trace, loc, value, shape);
  SmallVector<int32_t> order;
  for (unsigned i = 0; i <= rank; ++i)
    if (i != axis)
      order.push_back(i);
  order.push_back(axis);
  shape.erase(shape.begin() + axis);
  shape.push_back(count);
  value = trace.builder.createOrFold<tile::PermuteOp>(loc, tileOf(shape, value), value,
                                                      trace.builder.getDenseI32ArrayAttr(order));
  for (; count > 1; count /= 2, number /= 2) {
    shape.back() = count / 2;
    shape.push_back(2);
    value = reshaped(trace, loc, value, shape);
    shape.pop_back();
    mlir::Type half = tileOf(shape, value);
    auto split = tile::SplitOp::create(trace.builder, loc, half, half, value);
    value = number % 2 ? split.getSecond() : split.getFirst();
  }
  shape.pop_back();
  return reshaped(trace, loc, value, shape);
}

Value slice(const Value &x, const Extent &axis, const Operand &begin, const Extent &extent) {
  Location where = axis.where;
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  mlir::Value value = trace.get(x, where);
  SmallVector<int64_t> shape(tile::shapeOf(value.getType()));
  const unsigned at = axisOf(axis, shape, "sc::slice");
  const int64_t whole = shape[at], part = extent.number;
  if (part < 1 || part > whole)
    fail(extent.where, "sc::slice of " + Twine(part) + " elements of axis " + Twine(axis.number) +
                           " of " + shapeText(shape) + ": there are 1 to " + Twine(whole));
  if (begin.none || (begin.value ? !isInteger(begin.kind)
                                 : begin.literal.type != Literal::Type::integer &&
                                       begin.literal.type != Literal::Type::natural))
    fail(begin.where, "sc::slice begins at an integer");
  shape[at] = part;
  mlir::Value first;
  if (begin.value) {
    first = trace.get(*begin.value, begin.where);
    if (isa<RankedTensorType>(first.getType()))
      fail(begin.where, "sc::slice begins at one integer, not at a tile of them: sc::gather takes "
                        "an index for each element");
    first = convert(trace, loc, first, begin.kind, Kind::int32, trace.builder.getI32Type());
  } else {
    const std::int64_t number = begin.literal.integer;
    if (number < 0 || number > whole - part)
      fail(begin.where, "sc::slice of " + Twine(part) + " elements from " + Twine(number) +
                            " on: axis " + Twine(axis.number) + " has " + Twine(whole));
    if (part == whole)
      return x;
    if (whole % part == 0 && number % part == 0 && llvm::isPowerOf2_64(whole / part))
      return trace.wrap(partOf(trace, loc, value, at, whole / part, number / part));
    first = constantOf(trace, loc, trace.builder.getI32Type(), number);
  }
  mlir::Value positions = positionsAlong(trace, loc, shape, at);
  positions =
      arith::AddIOp::create(trace.builder, loc, positions, broadcastTo(trace, loc, first, shape));
  return trace.wrap(tile::GatherOp::create(trace.builder, loc, tileOf(shape, value), value,
                                           positions, at, nullptr));
}

Value gather(const Value &x, Kind kind, const Value &indices, const Extent &axis) {
  Location where = axis.where;
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  mlir::Value value = trace.get(x, where), index = trace.get(indices, where);
  ArrayRef<int64_t> from = tile::shapeOf(value.getType()), to = tile::shapeOf(index.getType());
  unsigned at = axisOf(axis, from, "sc::gather");
  bool fits = from.size() == to.size();
  for (unsigned i = 0; fits && i < from.size(); ++i)
    fits = i == at || from[i] == to[i];
  if (!fits)
    fail(where, "sc::gather of " + shapeText(from) + " by indices of " + shapeText(to) +
                    " along axis " + Twine(axis.number) +
                    ": the indices have one element per element of the result, whose extents are "
                    "the tile's but along the axis (sc::broadcast_to repeats them)");
  index = convert(trace, loc, index, kind, Kind::int32, trace.builder.getI32Type());
  return trace.wrap(
      tile::GatherOp::create(trace.builder, loc, tileOf(to, value), value, index, at, nullptr));
}

} // namespace sectile::detail
