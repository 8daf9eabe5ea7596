// Gather and scatter on views: rows at places that a tile gives.
#include "dsl/Memory.h"
#include "ir/tile/Build.h"
#include "ir/tile/Overflow.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <sectile/view.h>

using namespace mlir;

namespace sectile::detail {

namespace {

/// Pointers to the elements of the chosen rows, and which of them the view has.
class Rows {
public:
  Rows(Trace &trace, const ViewHandle &view, std::span<const int64_t> shape,
       std::span<const Operand> places, bool tiles, StringRef what)
      : trace(trace), builder(trace.builder), where(places[0].where), loc(trace.location(where)),
        view(view), shape(shape.begin(), shape.end()) {
    checkTileShape(shape, where);
    SmallVector<int64_t> extents(shape.size(), 1);
    ptrs = splat(start(places, tiles), extents);
    // Dimension by dimension, so that elements which differ in the last one alone share the rest.
    addDim(0, chosenRows(places[0], what));
    for (unsigned d = 1; d < shape.size(); ++d)
      addDim(d, range(d, builder.getI64Type()));
  }

  mlir::Value ptrs, mask;

private:
  mlir::Value number(int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
  }
  mlir::Value wide(const Value &handle) {
    mlir::Value value = trace.get(handle, where);
    return value.getType().isInteger(64)
               ? value
               : builder.createOrFold<arith::ExtSIOp>(loc, builder.getI64Type(), value);
  }
  mlir::Value splat(mlir::Value scalar, ArrayRef<int64_t> extents) {
    return tile::SplatOp::create(builder, loc, RankedTensorType::get(extents, scalar.getType()),
                                 scalar);
  }
  mlir::Value range(unsigned d, Type element) {
    mlir::Value steps = tile::ArangeOp::create(
        builder, loc, RankedTensorType::get({shape[d]}, builder.getI32Type()), 0);
    if (element.isInteger(32))
      return steps;
    return arith::ExtSIOp::create(builder, loc, RankedTensorType::get({shape[d]}, element), steps);
  }

  /// The address that the other dimensions' offsets give.
  mlir::Value start(std::span<const Operand> places, bool tiles) {
    mlir::Value ptr = trace.get(view.ptr, where);
    for (unsigned d = 1; d < shape.size(); ++d) {
      mlir::Value at = convert(trace, loc, scalarIndex(trace, places[d], "an index of a tile"),
                               Kind::index, Kind::index, builder.getI64Type());
      if (tiles)
        at = tile::createToFit<arith::MulIOp>(builder, loc, at, number(shape[d]));
      mlir::Value step = tile::createToFit<arith::MulIOp>(builder, loc, at, wide(view.strides[d]));
      ptr = builder.createOrFold<tile::AddPtrOp>(loc, ptr, step);
      mlir::Value rest = tile::createToFit<arith::SubIOp>(builder, loc, wide(view.extents[d]), at);
      addMask(d, inside(d, arith::CmpIPredicate::slt, rest));
      mlir::Value before = tile::createToFit<arith::SubIOp>(builder, loc, number(0), at);
      addMask(d, inside(d, arith::CmpIPredicate::sge, before));
    }
    return ptr;
  }

  /// Compares 0 … n-1 with a number that is first cut to 0 … n, so that 32 bits do.
  mlir::Value inside(unsigned d, arith::CmpIPredicate predicate, mlir::Value bound) {
    bound = builder.createOrFold<arith::MaxSIOp>(loc, bound, number(0));
    bound = builder.createOrFold<arith::MinSIOp>(loc, bound, number(shape[d]));
    bound = builder.createOrFold<arith::TruncIOp>(loc, builder.getI32Type(), bound);
    mlir::Value steps = range(d, builder.getI32Type());
    return arith::CmpIOp::create(builder, loc, predicate, steps, splat(bound, {shape[d]}));
  }

  /// The rows' numbers in 64 bits.
  mlir::Value chosenRows(const Operand &rows, StringRef what) {
    if (!rows.value || !isInteger(rows.kind))
      fail(rows.where, what + ": the rows are a tile of integers, as sc::arange(0, " +
                           Twine(shape[0]) + ") is");
    mlir::Value numbers = trace.get(*rows.value, rows.where);
    if (tile::shapeOf(numbers.getType()) != ArrayRef(shape).take_front())
      fail(rows.where, what + " of a tile of " + shapeText(shape) + ": the rows have the shape [" +
                           Twine(shape[0]) + "], not " +
                           shapeText(tile::shapeOf(numbers.getType())));
    numbers = convert(trace, loc, numbers, rows.kind, Kind::int64, builder.getI64Type());
    auto compare = [&](arith::CmpIPredicate predicate, mlir::Value bound) {
      mlir::Value all = splat(bound, {shape[0]});
      return arith::CmpIOp::create(builder, loc, predicate, numbers, all);
    };
    addMask(0, compare(arith::CmpIPredicate::sge, number(0)));
    addMask(0, compare(arith::CmpIPredicate::slt, wide(view.extents[0])));
    return numbers;
  }

  void addDim(unsigned d, mlir::Value steps) {
    mlir::Value stride = splat(wide(view.strides[d]), {shape[d]});
    steps = tile::createToFit<arith::MulIOp>(builder, loc, steps, stride);
    SmallVector<int64_t> extents(tile::shapeOf(ptrs.getType()));
    extents[d] = shape[d];
    mlir::Value offsets = tile::alongDim(builder, loc, steps, d, shape.size());
    offsets = broadcastTo(trace, loc, offsets, extents);
    ptrs = broadcastTo(trace, loc, ptrs, extents);
    ptrs = tile::AddPtrOp::create(builder, loc, ptrs, offsets);
  }
  void addMask(unsigned d, mlir::Value part) {
    part = broadcastTo(trace, loc, tile::alongDim(builder, loc, part, d, shape.size()), shape);
    mask = mask ? mlir::Value(arith::AndIOp::create(builder, loc, mask, part)) : part;
  }

  Trace &trace;
  OpBuilder &builder;
  Location where;
  mlir::Location loc;
  const ViewHandle &view;
  SmallVector<int64_t> shape;
};

} // namespace

Value gatherRows(const ViewHandle &view, std::span<const int64_t> shape,
                 std::span<const Operand> places, bool tiles, const Literal *padding,
                 Access access) {
  Location where = places[0].where;
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  checkLoad(access, where);
  Rows rows(trace, view, shape, places, tiles, "gather");
  mlir::Value other;
  if (padding) {
    Operand number(0, where);
    number.literal = *padding;
    other = valueForMemory(trace, loc, view.kind, number, {shape.data(), shape.size()}, "padding");
  }
  auto type = RankedTensorType::get({shape.data(), shape.size()}, memoryElement(trace, view.kind));
  mlir::Value result = tile::LoadOp::create(
      trace.builder, loc, type, rows.ptrs, rows.mask, other, cacheOf(access), evictionOf(access),
      /*isVolatile=*/access.cache == Cache::uncached, /*vector=*/IntegerAttr());
  return trace.wrap(fromMemory(trace, loc, view.kind, result));
}

void scatterRows(const ViewHandle &view, std::span<const int64_t> shape,
                 std::span<const Operand> places, bool tiles, const Operand &value, Access access) {
  Location where = value.where;
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  checkStore(access, where);
  Rows rows(trace, view, shape, places, tiles, "scatter");
  mlir::Value stored = valueForMemory(trace, loc, view.kind, value, {shape.data(), shape.size()},
                                      "a tile scattered to a view");
  tile::StoreOp::create(trace.builder, loc, rows.ptrs, stored, rows.mask, cacheOf(access),
                        evictionOf(access), /*vector=*/IntegerAttr());
}

} // namespace sectile::detail
