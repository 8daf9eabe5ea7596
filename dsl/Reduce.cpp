// Reductions: the combiner is traced into the operation's region.
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include <sectile/reduce.h>

using namespace mlir;

namespace sectile::detail {

int rankOf(const Value &value, Location where) {
  return static_cast<int>(shapeOf(value, where).size());
}

/// A combiner's operations stand for many at once: they may not see the rest of the kernel.
static void checkClosed(Block &body, Location where) {
  for (Operation &op : body) {
    if (!isPure(&op) || op.getNumRegions())
      fail(where,
           "the combiner of a reduction may only compute: no loads, stores, loops or branches");
    for (mlir::Value operand : op.getOperands())
      if (operand.getParentBlock() != &body)
        fail(where, "the combiner of a reduction may use only its parameters and numbers, not the "
                    "kernel's other values");
  }
}

void reduce(std::span<const Value *const> sources, const Extent &axis, const Combiner &combiner,
            Value *results) {
  Location where = axis.where;
  Trace &trace = Trace::current(where);
  OpBuilder &builder = trace.builder;
  mlir::Location loc = trace.location(where);
  SmallVector<mlir::Value> tiles;
  for (const Value *source : sources)
    tiles.push_back(trace.get(*source, where));
  SmallVector<int64_t> shape(tile::shapeOf(tiles[0].getType()));
  for (mlir::Value tile : tiles)
    if (tile::shapeOf(tile.getType()) != ArrayRef<int64_t>(shape))
      fail(where, "a reduction of several tiles needs one shape, not " + shapeText(shape) +
                      " and " + shapeText(tile::shapeOf(tile.getType())));
  int64_t rank = shape.size();
  int64_t at = axis.number < 0 ? axis.number + rank : axis.number;
  if (at < 0 || at >= rank)
    fail(where,
         "a reduction along axis " + Twine(axis.number) + " of a tile of rank " + Twine(rank));
  shape.erase(shape.begin() + at);

  SmallVector<mlir::Type> types, elements;
  for (mlir::Value tile : tiles) {
    elements.push_back(getElementTypeOrSelf(tile.getType()));
    types.push_back(tensorOrScalar(shape, elements.back()));
  }
  Trace::Frame frame;
  trace.open(frame, where);
  struct Closing {
    Trace &trace;
    Trace::Frame &frame;
    bool done = false;
    ~Closing() {
      if (!done)
        trace.abandon(frame);
    }
  } closing{trace, frame};
  Block &body = frame.region->front();
  size_t n = tiles.size();
  {
    std::vector<Value> in, out(n);
    for (size_t i = 0; i < 2 * n; ++i)
      in.push_back(trace.wrap(body.addArgument(elements[i % n], loc)));
    combiner.call(combiner.object, in.data(), out.data());
    trace.rethrowPoison();
    SmallVector<mlir::Value> yields;
    for (size_t i = 0; i < n; ++i) {
      yields.push_back(trace.get(out[i], where));
      if (yields[i].getType() != elements[i])
        fail(where, "the combiner of a reduction returns one number per tile, not a tile of " +
                        shapeText(tile::shapeOf(yields[i].getType())));
    }
    for (Trace::Frame::Entry &entry : frame.entries)
      if (trace.valueOf(entry) != entry.before)
        fail(where, "the combiner of a reduction may not assign the kernel's variables");
    tile::YieldOp::create(builder, loc, yields);
  }
  checkClosed(body, where);
  if (combiner.ours)
    for (Operation &op : body)
      op.setLoc(loc);
  closing.done = true;
  Block *block = &body;
  trace.close(frame, [&](mlir::Value value) {
    return value.getParentBlock() == block ? mlir::Value() : value;
  });
  auto op = tile::ReduceOp::create(builder, loc, types, tiles, static_cast<uint32_t>(at));
  op.getCombiner().takeBody(*frame.region);
  for (size_t i = 0; i < n; ++i)
    results[i] = trace.wrap(op.getResult(i));
}

Value positions(const Value &like, const Extent &axis) {
  Trace &trace = Trace::current(axis.where);
  mlir::Location loc = trace.location(axis.where);
  SmallVector<int64_t> shape(tile::shapeOf(trace.get(like, axis.where).getType()));
  int64_t rank = shape.size();
  int64_t at = axis.number < 0 ? axis.number + rank : axis.number;
  if (at < 0 || at >= rank)
    fail(axis.where,
         "a reduction along axis " + Twine(axis.number) + " of a tile of rank " + Twine(rank));
  mlir::Type i32 = trace.builder.getI32Type();
  mlir::Value value =
      tile::ArangeOp::create(trace.builder, loc, RankedTensorType::get({shape[at]}, i32), 0);
  SmallVector<int64_t> expanded = {shape[at]};
  for (int64_t i = 0; i < at; ++i) {
    expanded.insert(expanded.begin(), 1);
    value = tile::ExpandDimsOp::create(trace.builder, loc, RankedTensorType::get(expanded, i32),
                                       value, 0);
  }
  for (int64_t i = at + 1; i < rank; ++i) {
    expanded.push_back(1);
    value = tile::ExpandDimsOp::create(trace.builder, loc, RankedTensorType::get(expanded, i32),
                                       value, static_cast<uint32_t>(i));
  }
  return trace.wrap(broadcastTo(trace, loc, value, shape));
}

} // namespace sectile::detail
