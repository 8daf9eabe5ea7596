// Shapes: broadcasting, and the operations that make tiles or rearrange them.
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <sectile/create.h>
#include <sectile/grid.h>
#include <sectile/shape.h>

using namespace mlir;

namespace sectile::detail {

std::span<const std::int64_t> shapeOf(const Value &value, Location where) {
  Trace &trace = Trace::current(where);
  ArrayRef<int64_t> shape = tile::shapeOf(trace.get(value, where).getType());
  return {shape.data(), shape.size()};
}

std::int64_t extentOf(const Value &value, Extent axis) {
  std::span<const std::int64_t> shape = shapeOf(value, axis.where);
  if (axis.number < 0 || axis.number >= static_cast<int64_t>(shape.size()))
    fail(axis.where, "axis " + Twine(axis.number) + " of a tile of rank " + Twine(shape.size()));
  return shape[axis.number];
}

//===-- Broadcasting
//------------------------------------------------------------------------------===//

SmallVector<int64_t> broadcastShape(ArrayRef<mlir::Value> values, StringRef what, Location where) {
  size_t rank = 0;
  for (mlir::Value value : values)
    rank = std::max(rank, tile::shapeOf(value.getType()).size());
  SmallVector<int64_t> result(rank, 1);
  for (mlir::Value value : values) {
    ArrayRef<int64_t> shape = tile::shapeOf(value.getType());
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t &extent = result[rank - shape.size() + i];
      if (extent == 1)
        extent = shape[i];
      else if (shape[i] != 1 && shape[i] != extent) {
        std::string shapes;
        for (auto [j, other] : llvm::enumerate(values))
          shapes += (j == 0                   ? ""
                     : j + 1 == values.size() ? " and "
                                              : ", ") +
                    shapeText(tile::shapeOf(other.getType()));
        fail(where,
             what + ": the shapes " + shapes +
                 " do not fit together: extents must be equal or 1, counted from the last axis "
                 "(sc::expand inserts an axis of extent 1)");
      }
    }
  }
  return result;
}

mlir::Value broadcastTo(Trace &trace, mlir::Location loc, mlir::Value value,
                        ArrayRef<int64_t> shape) {
  OpBuilder &builder = trace.builder;
  ArrayRef<int64_t> from = tile::shapeOf(value.getType());
  if (from == shape)
    return value;
  mlir::Type element = getElementTypeOrSelf(value.getType());
  auto type = RankedTensorType::get(shape, element);
  if (from.empty())
    return builder.createOrFold<tile::SplatOp>(loc, type, value);
  while (tile::shapeOf(value.getType()).size() < shape.size()) {
    SmallVector<int64_t> expanded(tile::shapeOf(value.getType()));
    expanded.insert(expanded.begin(), 1);
    value = builder.createOrFold<tile::ExpandDimsOp>(loc, RankedTensorType::get(expanded, element),
                                                     value, builder.getI32IntegerAttr(0));
  }
  return builder.createOrFold<tile::BroadcastOp>(loc, type, value);
}

SmallVector<mlir::Value> convertAll(Trace &trace, Kind kind, ArrayRef<const Operand *> operands,
                                    Location where) {
  mlir::Location loc = trace.location(where);
  mlir::Type element = commonElement(trace, kind, operands);
  SmallVector<mlir::Value> values;
  for (const Operand *operand : operands) {
    if (operand->value)
      values.push_back(convert(trace, loc, trace.get(*operand->value, operand->where),
                               operand->kind, kind, element));
    else
      values.push_back(arith::ConstantOp::create(
          trace.builder, loc, literalAttr(operand->literal, kind, element, where)));
  }
  return values;
}

SmallVector<mlir::Value> unify(Trace &trace, Kind kind, ArrayRef<const Operand *> operands,
                               StringRef what, Location where) {
  SmallVector<mlir::Value> values = convertAll(trace, kind, operands, where);
  SmallVector<int64_t> shape = broadcastShape(values, what, where);
  for (mlir::Value &value : values)
    value = broadcastTo(trace, trace.location(where), value, shape);
  return values;
}

//===-- Making tiles
//------------------------------------------------------------------------------===//

static void checkGridAxis(const Extent &axis, StringRef what) {
  if (axis.number < 0 || axis.number > 2)
    fail(axis.where, what + ": a grid has the axes 0, 1 and 2, not " + Twine(axis.number));
}

void checkGroup(int group, int cluster, Location where) {
  if (group < 1)
    fail(where, "sc::grouped_order: a group has one row of tiles at least, not " + Twine(group));
  if (cluster < 1 || group % cluster != 0)
    fail(where, "sc::grouped_order: a group has whole clusters, but " + Twine(group) +
                    " rows of tiles are no multiple of " + Twine(cluster));
}

/// Of the width that indices have in this trace.
static mlir::Value widened(Trace &trace, mlir::Location loc, mlir::Value value) {
  return convert(trace, loc, value, Kind::index, Kind::index, elementTypeOf(trace, Kind::index));
}

/// Where the launch has this axis of the kernel's grid.
static unsigned launchedAxis(const Trace &trace, const Extent &axis) {
  const auto number = static_cast<unsigned>(axis.number);
  const unsigned longAxis = trace.functions ? trace.functions->longAxis : 0;
  return number == 0 ? longAxis : number == longAxis ? 0 : number;
}

Value programId(const Extent &axis) {
  Trace &trace = Trace::current(axis.where);
  checkGridAxis(axis, "sc::program_id");
  mlir::Location loc = trace.location(axis.where);
  return trace.wrap(widened(
      trace, loc, tile::ProgramIdOp::create(trace.builder, loc, launchedAxis(trace, axis))));
}

Value numPrograms(const Extent &axis) {
  Trace &trace = Trace::current(axis.where);
  checkGridAxis(axis, "sc::num_programs");
  mlir::Location loc = trace.location(axis.where);
  return trace.wrap(widened(
      trace, loc, tile::NumProgramsOp::create(trace.builder, loc, launchedAxis(trace, axis))));
}

void setCluster(int programs, Location where) {
  Trace &trace = Trace::current(where);
  if (programs != 1 && programs != 2)
    fail(where, "sc::program_clusters: a cluster has 1 or 2 programs, not " + Twine(programs));
  auto kernel = dyn_cast_if_present<mlir::func::FuncOp>(trace.builder.getBlock()->getParentOp());
  if (!kernel || !kernel->hasAttr(tile::kernelAttr))
    fail(where, "sc::program_clusters: it belongs at the beginning of a kernel, outside of loops, "
                "branches and functions");
  // A launch along another axis does without: its neighbours are other programs.
  if (programs > 1 && !trace.functions->longAxis)
    kernel->setAttr(tile::clusterAttr, trace.builder.getI32IntegerAttr(programs));
}

static constexpr int64_t mostElements = int64_t{1} << 24;

/// The extents given, checked.
static SmallVector<int64_t> shapeFrom(std::initializer_list<Extent> extents, StringRef what) {
  SmallVector<int64_t> shape;
  int64_t elements = 1;
  for (const Extent &extent : extents) {
    if (extent.none)
      continue;
    if (extent.number < 1)
      fail(extent.where,
           what + ": an extent of " + Twine(extent.number) + "; extents of tiles are at least 1");
    shape.push_back(extent.number);
    if (extent.number > mostElements || (elements *= extent.number) > mostElements)
      fail(extent.where, what + ": a tile of " + shapeText(shape) + " is too large for any chip");
  }
  return shape;
}

Value arange(const Extent &start, const Extent &end) {
  Trace &trace = Trace::current(start.where);
  mlir::Location loc = trace.location(start.where);
  if (start.number < INT32_MIN || start.number > INT32_MAX || end.number > INT32_MAX)
    fail(start.where, "sc::arange takes numbers of 32 bits: add a larger start to its result");
  if (end.number <= start.number)
    fail(start.where, "sc::arange(" + Twine(start.number) + ", " + Twine(end.number) +
                          ") is empty: the end must be larger than the start");
  SmallVector<int64_t> shape =
      shapeFrom({Extent(end.number - start.number, start.where)}, "sc::arange");
  auto type = RankedTensorType::get(shape, trace.builder.getI32Type());
  return trace.wrap(
      widened(trace, loc, tile::ArangeOp::create(trace.builder, loc, type, start.number)));
}

Value full(Kind kind, const Operand &value, std::initializer_list<Extent> extents) {
  Trace &trace = Trace::current(value.where);
  SmallVector<int64_t> shape = shapeFrom(extents, "a tile");
  mlir::Location loc = trace.location(value.where);
  mlir::Value number = unify(trace, kind, {&value}, "sc::full", value.where)[0];
  if (isa<RankedTensorType>(number.getType()))
    fail(value.where, "sc::full takes one number, not a tile of " +
                          shapeText(tile::shapeOf(number.getType())) +
                          ": sc::broadcast_to repeats a tile");
  return trace.wrap(broadcastTo(trace, loc, number, shape));
}

Value fullLike(Kind kind, const Operand &value, const Value &like, Location where) {
  Trace &trace = Trace::current(where);
  SmallVector<int64_t> shape(tile::shapeOf(trace.get(like, where).getType()));
  mlir::Value number = unify(trace, kind, {&value}, "sc::full_like", where)[0];
  if (isa<RankedTensorType>(number.getType()))
    fail(where, "sc::full_like takes one number, not a tile of " +
                    shapeText(tile::shapeOf(number.getType())) +
                    ": sc::broadcast_to repeats a tile");
  return trace.wrap(broadcastTo(trace, trace.location(where), number, shape));
}

//===-- Rearranging
//-------------------------------------------------------------------------------===//

Value expand(const Value &x, const Extent &axis) {
  Trace &trace = Trace::current(axis.where);
  mlir::Value value = trace.get(x, axis.where);
  SmallVector<int64_t> shape(tile::shapeOf(value.getType()));
  int64_t rank = shape.size();
  int64_t at = axis.number < 0 ? axis.number + rank + 1 : axis.number;
  if (at < 0 || at > rank)
    fail(axis.where,
         "sc::expand at axis " + Twine(axis.number) + " of a tile of rank " + Twine(rank));
  mlir::Location loc = trace.location(axis.where);
  if (rank == 0)
    return trace.wrap(broadcastTo(trace, loc, value, {1}));
  shape.insert(shape.begin() + at, 1);
  return trace.wrap(trace.builder.createOrFold<tile::ExpandDimsOp>(
      loc, RankedTensorType::get(shape, getElementTypeOrSelf(value.getType())), value,
      trace.builder.getI32IntegerAttr(static_cast<int32_t>(at))));
}

Value broadcastTo(const Value &x, std::initializer_list<Extent> extents, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Value value = trace.get(x, where);
  SmallVector<int64_t> shape = shapeFrom(extents, "sc::broadcast_to");
  ArrayRef<int64_t> from = tile::shapeOf(value.getType());
  bool fits = from.size() <= shape.size();
  for (size_t i = 0; fits && i < from.size(); ++i)
    fits = from[i] == 1 || from[i] == shape[shape.size() - from.size() + i];
  if (!fits)
    fail(where, "sc::broadcast_to of " + shapeText(from) + " to " + shapeText(shape) +
                    ": only extents of 1 repeat, and new axes come first");
  return trace.wrap(broadcastTo(trace, trace.location(where), value, shape));
}

Value reshape(const Value &x, std::initializer_list<Extent> extents, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Value value = trace.get(x, where);
  SmallVector<int64_t> shape = shapeFrom(extents, "sc::reshape");
  auto from = dyn_cast<RankedTensorType>(value.getType());
  auto type = RankedTensorType::get(shape, getElementTypeOrSelf(value.getType()));
  if ((from ? from.getNumElements() : 1) != type.getNumElements())
    fail(where, "sc::reshape of " + shapeText(tile::shapeOf(value.getType())) + " to " +
                    shapeText(shape) + ": the number of elements differs");
  mlir::Location loc = trace.location(where);
  if (!from)
    return trace.wrap(broadcastTo(trace, loc, value, shape));
  return trace.wrap(trace.builder.createOrFold<tile::ReshapeOp>(loc, type, value));
}

Value permute(const Value &x, std::span<const int> order, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Value value = trace.get(x, where);
  ArrayRef<int64_t> from = tile::shapeOf(value.getType());
  SmallVector<int64_t> shape;
  SmallVector<bool> seen(from.size());
  bool valid = order.size() == from.size();
  for (size_t i = 0; valid && i < order.size(); ++i) {
    valid = order[i] >= 0 && order[i] < static_cast<int>(from.size()) && !seen[order[i]];
    if (valid) {
      seen[order[i]] = true;
      shape.push_back(from[order[i]]);
    }
  }
  if (!valid)
    fail(where, "sc::permute of " + shapeText(from) + ": the order names each axis, 0 to " +
                    Twine(static_cast<int64_t>(from.size()) - 1) + ", once");
  if (from.empty())
    return x;
  return trace.wrap(trace.builder.createOrFold<tile::PermuteOp>(
      trace.location(where), RankedTensorType::get(shape, getElementTypeOrSelf(value.getType())),
      value, trace.builder.getDenseI32ArrayAttr({order.data(), order.size()})));
}

Value transpose(const Value &x, Location where) {
  int rank = static_cast<int>(shapeOf(x, where).size());
  if (rank < 2)
    fail(where, "sc::trans swaps the last two axes, and this tile has rank " + Twine(rank) +
                    ": sc::expand inserts an axis");
  SmallVector<int> order;
  for (int i = 0; i < rank; ++i)
    order.push_back(i);
  std::swap(order[rank - 1], order[rank - 2]);
  return permute(x, {order.data(), order.size()}, where);
}

} // namespace sectile::detail
