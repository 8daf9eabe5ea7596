// Reductions and scans: the combiner is traced into the operation's region.
#include "dsl/Axes.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
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

/// Whether a combiner gives the same with left and right exchanged. It compares what computes two
/// values, one of them after the exchange. What it cannot tell does not commute.
class Exchange {
public:
  explicit Exchange(Block &body) : body(body) {}

  bool changesNothing() {
    return llvm::all_of(body.getTerminator()->getOperands(),
                        [&](mlir::Value result) { return gives(result, result); });
  }

private:
  /// Whether `value` becomes `other` by the exchange.
  bool gives(mlir::Value value, mlir::Value other) {
    auto [known, isNew] = found.try_emplace({value, other}, false);
    if (!isNew)
      return known->second;
    return found[{value, other}] = compare(value, other);
  }
  bool compare(mlir::Value value, mlir::Value other) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      const unsigned all = body.getNumArguments();
      return body.getArgument((argument.getArgNumber() + all / 2) % all) == other;
    }
    Operation *from = value.getDefiningOp(), *to = other.getDefiningOp();
    if (!to || from->getName() != to->getName() || value.getType() != other.getType() ||
        cast<OpResult>(value).getResultNumber() != cast<OpResult>(other).getResultNumber() ||
        from->getAttrDictionary() != to->getAttrDictionary() ||
        from->getNumOperands() != to->getNumOperands())
      return false;
    const unsigned count = from->getNumOperands();
    if (llvm::all_of(llvm::seq(count),
                     [&](unsigned i) { return gives(from->getOperand(i), to->getOperand(i)); }))
      return true;
    const bool crosses = from->hasTrait<OpTrait::IsCommutative>() ||
                         isa<tile::MaximumNumberOp, tile::MinimumNumberOp>(from) ||
                         (isa<arith::CmpIOp>(from) &&
                          llvm::is_contained({arith::CmpIPredicate::eq, arith::CmpIPredicate::ne},
                                             cast<arith::CmpIOp>(from).getPredicate()));
    return crosses && count == 2 && gives(from->getOperand(0), to->getOperand(1)) &&
           gives(from->getOperand(1), to->getOperand(0));
  }

  Block &body;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, bool> found;
};

/// A reduction whose combiner need not commute: the last elements of a scan. The operation
/// `tile.reduce` combines elements in any order.
static SmallVector<mlir::Value> reduceInOrder(Trace &trace, mlir::Location loc,
                                              ArrayRef<mlir::Value> tiles, uint32_t axis,
                                              TypeRange results, Region &combiner) {
  SmallVector<mlir::Value> sources(tiles);
  auto scan = tile::ScanOp::create(trace.builder, loc, TypeRange(ValueRange(sources)), sources,
                                   axis, /*reverse=*/false, nullptr);
  scan->getRegion(0).takeBody(combiner);
  sources.assign(scan->result_begin(), scan->result_end());
  sources.push_back(positionsAlong(trace, loc, tile::shapeOf(sources[0].getType()), axis));
  SmallVector<mlir::Type> types(results);
  types.push_back(tensorOrScalar(tile::shapeOf(results[0]), trace.builder.getI32Type()));
  auto last = tile::ReduceOp::create(trace.builder, loc, types, sources, axis);
  OpBuilder::InsertionGuard guard(trace.builder);
  Block *body = trace.builder.createBlock(&last->getRegion(0));
  const unsigned count = sources.size();
  for (unsigned i = 0; i < 2 * count; ++i)
    body->addArgument(getElementTypeOrSelf(sources[i % count].getType()), loc);
  mlir::Value isLater =
      arith::CmpIOp::create(trace.builder, loc, arith::CmpIPredicate::sgt,
                            body->getArgument(count - 1), body->getArgument(2 * count - 1));
  SmallVector<mlir::Value> later;
  for (unsigned i = 0; i < count; ++i)
    later.push_back(arith::SelectOp::create(trace.builder, loc, isLater, body->getArgument(i),
                                            body->getArgument(count + i)));
  tile::YieldOp::create(trace.builder, loc, later);
  return SmallVector<mlir::Value>(last->getResults().drop_back());
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
  // The library's own combiners commute.
  if (how == Combining::reduce && !combiner.ours && !Exchange(region->front()).changesNothing()) {
    auto combined = reduceInOrder(trace, loc, tiles, at, types, *region);
    for (size_t i = 0; i < tiles.size(); ++i)
      results[i] = trace.wrap(combined[i]);
    return;
  }
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
