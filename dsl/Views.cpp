// Views: block loads and stores, and views of parts of views.
#include "dsl/Memory.h"
#include "dsl/Trace.h"
#include "ir/tile/Overflow.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <limits>
#include <sectile/view.h>

using namespace mlir;

namespace sectile::detail {

void checkAxis(const Extent &axis, int rank) {
  if (axis.number < 0 || axis.number >= rank)
    fail(axis.where, "axis " + Twine(axis.number) + " of a view with " + Twine(rank) +
                         (rank == 1 ? " axis" : " axes"));
}

Value tilesAlong(const Value &extent, const Extent &size) {
  Trace &trace = Trace::current(size.where);
  if (size.number < 1)
    fail(size.where, "a tile's extent is at least 1, not " + Twine(size.number));
  mlir::Location loc = trace.location(size.where);
  OpBuilder &builder = trace.builder;
  mlir::Value value = trace.get(extent, size.where);
  value = tile::createToFit<arith::AddIOp>(
      builder, loc, value, constantOf(trace, loc, value.getType(), size.number - 1));
  return trace.wrap(tile::createToFit<arith::DivSIOp>(
      builder, loc, value, constantOf(trace, loc, value.getType(), size.number)));
}

Value address(const Value &ptr, std::span<const Value> strides, std::span<const Operand> indices) {
  Location where = indices[0].where;
  Trace &trace = Trace::current(where);
  OpBuilder &builder = trace.builder;
  mlir::Value result = trace.get(ptr, where);
  for (auto [stride, index] : llvm::zip(strides, indices)) {
    mlir::Location loc = trace.location(index.where);
    mlir::Type i64 = builder.getI64Type();
    mlir::Value at = convert(trace, loc, scalarIndex(trace, index, "an index of a view"),
                             Kind::index, Kind::index, i64);
    mlir::Value step =
        convert(trace, loc, trace.get(stride, index.where), Kind::index, Kind::index, i64);
    result = builder.createOrFold<tile::AddPtrOp>(
        loc, result, tile::createToFit<arith::MulIOp>(builder, loc, at, step));
  }
  return trace.wrap(result);
}

namespace {
/// A block of a view: the view as a value, and where the block starts.
struct BlockOf {
  mlir::Value view;
  SmallVector<mlir::Value> offsets;
};
} // namespace

void checkTileShape(std::span<const int64_t> shape, Location where) {
  for (int64_t extent : shape)
    if (extent < 1 || extent > (int64_t{1} << 24))
      fail(where, "a tile of " + shapeText({shape.data(), shape.size()}) +
                      " of a view: extents of tiles are at least 1 and fit on a chip");
}

/// A number that wraps may be anything, a hash for example. Blocks so far out lie outside of every
/// view, where they stay if they begin at a place that fits.
static mlir::Value clampedTo(Trace &trace, mlir::Location loc, mlir::Value at, unsigned bits,
                             int64_t extent) {
  const unsigned width = at.getType().getIntOrFloatBitWidth();
  const int64_t limit = std::numeric_limits<int64_t>::max() >> (64 - width);
  if (extent == 1 || (bits < 63 && (int64_t(1) << bits) <= limit / extent))
    return at;
  OpBuilder &builder = trace.builder;
  at = builder.createOrFold<arith::MinSIOp>(loc, at,
                                            constantOf(trace, loc, at.getType(), limit / extent));
  return builder.createOrFold<arith::MaxSIOp>(
      loc, at, constantOf(trace, loc, at.getType(), -(limit / extent)));
}

static BlockOf blockOf(Trace &trace, const ViewHandle &view, std::span<const int64_t> shape,
                       std::span<const Operand> offsets, bool tiles) {
  Location where = offsets[0].where;
  checkTileShape(shape, where);
  mlir::Location loc = trace.location(where);
  OpBuilder &builder = trace.builder;
  BlockOf result;
  for (auto [offset, extent] : llvm::zip(offsets, shape)) {
    mlir::Value at = scalarIndex(trace, offset, "an index of a tile");
    if (tiles && offset.value && offset.kind != Kind::index)
      at = clampedTo(trace, loc, at, bitsOf(offset.kind), extent);
    if (tiles)
      at = tile::createToFit<arith::MulIOp>(builder, loc, at,
                                            constantOf(trace, loc, at.getType(), extent));
    result.offsets.push_back(at);
  }
  SmallVector<mlir::Value> extents, strides;
  for (const Value &extent : view.extents)
    extents.push_back(trace.get(extent, where));
  for (const Value &stride : view.strides)
    strides.push_back(trace.get(stride, where));
  mlir::Value ptr = trace.get(view.ptr, where);
  auto type = tile::ViewType::get(extents.size(), cast<tile::PtrType>(ptr.getType()).getElement());
  result.view = tile::MakeViewOp::create(builder, loc, type, ptr, extents, strides);
  return result;
}

Value loadBlock(const ViewHandle &view, std::span<const int64_t> shape,
                std::span<const Operand> offsets, bool tiles, const Literal *padding,
                Access access) {
  Location where = offsets[0].where;
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  checkLoad(access, where);
  BlockOf block = blockOf(trace, view, shape, offsets, tiles);
  mlir::Type element = memoryElement(trace, view.kind);
  TypedAttr pad;
  if (padding) {
    pad = literalAttr(*padding, view.kind, elementTypeOf(trace, view.kind), where);
    if (isBool(view.kind))
      pad = IntegerAttr::get(element, cast<IntegerAttr>(pad).getValue().zext(8));
  }
  mlir::Value result = tile::LoadBlockOp::create(
      trace.builder, loc, RankedTensorType::get({shape.data(), shape.size()}, element), block.view,
      block.offsets, pad, cacheOf(access), evictionOf(access));
  return trace.wrap(fromMemory(trace, loc, view.kind, result));
}

void storeBlock(const ViewHandle &view, std::span<const int64_t> shape,
                std::span<const Operand> offsets, bool tiles, const Operand &value, Access access) {
  Location where = value.where;
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  checkStore(access, where);
  BlockOf block = blockOf(trace, view, shape, offsets, tiles);
  mlir::Value stored = valueForMemory(trace, loc, view.kind, value, {shape.data(), shape.size()},
                                      "a tile stored to a view");
  tile::StoreBlockOp::create(trace.builder, loc, block.view, block.offsets, stored, cacheOf(access),
                             evictionOf(access));
}

Value atomicBlock(AtomicOp op, const ViewHandle &view, std::span<const int64_t> shape,
                  std::span<const Operand> offsets, bool tiles, const Operand &value, Atomic how) {
  Location where = value.where;
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  BlockOf block = blockOf(trace, view, shape, offsets, tiles);
  mlir::Value given = valueForMemory(trace, loc, view.kind, value, {shape.data(), shape.size()},
                                     "a tile for an atomic operation on a view");
  return trace.wrap(tile::AtomicBlockOp::create(trace.builder, loc, given.getType(),
                                                atomicKindOf(op, view.kind), block.view,
                                                block.offsets, given, orderOf(how), scopeOf(how)));
}

} // namespace sectile::detail
