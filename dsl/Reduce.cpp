// Reductions and scans: the combiner is traced into the operation's region.
#include "dsl/Axes.h"
#include "ir/tile/Tile.h"
#include "mlir/IR/Matchers.h"
#include <sectile/reduce.h>

using namespace mlir;

namespace sectile::detail {

std::vector<int> axesOf(const Value &value, const Axes &axes) {
  std::span<const std::int64_t> shape = shapeOf(value, axes.where);
  std::vector<int> result;
  for (std::int64_t axis : axes.numbers)
    result.push_back(static_cast<int>(
        axisOf(Extent(axis, axes.where), {shape.data(), shape.size()}, "a reduction")));
  llvm::sort(result, std::greater<>());
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    fail(axes.where, "a reduction along axis " +
                         Twine(*std::adjacent_find(result.begin(), result.end())) +
                         " twice: name each axis once");
  return result;
}

std::vector<int> allAxes(const Value &value, Location where) {
  std::vector<int> result;
  for (size_t rank = shapeOf(value, where).size(); rank > 0; --rank)
    result.push_back(static_cast<int>(rank - 1));
  return result;
}

static StringRef nameOf(Combining how) {
  return how == Combining::reduce ? "a reduction" : "a scan";
}

/// A combiner's operations stand for many at once: they may not see the rest of the kernel.
static void checkClosed(Block &body, StringRef what, Location where) {
  for (Operation &op : body) {
    if (!isPure(&op) || op.getNumRegions())
      fail(where,
           "the combiner of " + what + " may only compute: no loads, stores, loops or branches");
    for (mlir::Value operand : op.getOperands())
      if (operand.getParentBlock() != &body)
        fail(where, "the combiner of " + what +
                        " may use only its parameters and numbers, not the kernel's other values");
  }
}

/// Traces the combiner into a region of its own.
static std::unique_ptr<Region> traceCombiner(Trace &trace, ArrayRef<mlir::Type> elements,
                                             const Combiner &combiner, StringRef what,
                                             Location where) {
  mlir::Location loc = trace.location(where);
  OpenFrame open(trace, where);
  Trace::Frame &frame = open.frame;
  Block &body = frame.region->front();
  size_t n = elements.size();
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
        fail(where, "the combiner of " + what + " returns one number per tile, not a tile of " +
                        shapeText(tile::shapeOf(yields[i].getType())));
    }
    for (Trace::Frame::Entry &entry : frame.entries)
      if (trace.valueOf(entry) != entry.before)
        fail(where, "the combiner of " + what + " may not assign the kernel's variables");
    tile::YieldOp::create(trace.builder, loc, yields);
  }
  checkClosed(body, what, where);
  if (combiner.ours)
    for (Operation &op : body)
      op.setLoc(loc);
  open.closed();
  Block *block = &body;
  trace.close(frame, [&](mlir::Value value) {
    return value.getParentBlock() == block ? mlir::Value() : value;
  });
  return std::move(frame.region);
}

void combine(Combining how, std::span<const Value *const> sources, const Extent &axis,
             const Combiner &combiner, Value *results) {
  Location where = axis.where;
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  StringRef what = nameOf(how);
  SmallVector<mlir::Value> tiles;
  for (const Value *source : sources)
    tiles.push_back(trace.get(*source, where));
  SmallVector<int64_t> shape(tile::shapeOf(tiles[0].getType()));
  for (mlir::Value tile : tiles)
    if (tile::shapeOf(tile.getType()) != ArrayRef<int64_t>(shape))
      fail(where, what + " of several tiles needs one shape, not " + shapeText(shape) + " and " +
                      shapeText(tile::shapeOf(tile.getType())));
  uint32_t at = axisOf(axis, shape, what);
  if (how == Combining::reduce)
    shape.erase(shape.begin() + at);

  SmallVector<mlir::Type> types, elements;
  for (mlir::Value tile : tiles) {
    elements.push_back(getElementTypeOrSelf(tile.getType()));
    types.push_back(tensorOrScalar(shape, elements.back()));
  }
  std::unique_ptr<Region> region = traceCombiner(trace, elements, combiner, what, where);
  Operation *op = nullptr;
  if (how == Combining::reduce)
    op = tile::ReduceOp::create(trace.builder, loc, types, tiles, at);
  else
    op = tile::ScanOp::create(trace.builder, loc, types, tiles, at, how == Combining::scan_reverse,
                              nullptr);
  op->getRegion(0).takeBody(*region);
  for (size_t i = 0; i < tiles.size(); ++i)
    results[i] = trace.wrap(op->getResult(i));
}

Value positions(const Value &like, const Extent &axis) {
  Trace &trace = Trace::current(axis.where);
  ArrayRef<int64_t> shape = tile::shapeOf(trace.get(like, axis.where).getType());
  unsigned at = axisOf(axis, shape, "a reduction");
  return trace.wrap(positionsAlong(trace, trace.location(axis.where), shape, at));
}

} // namespace sectile::detail
