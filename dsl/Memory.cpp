// Pointers: arithmetic, loads and stores.
#include "dsl/Memory.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace sectile::detail {

tile::Cache cacheOf(Access access) { return static_cast<tile::Cache>(access.cache); }
tile::Eviction evictionOf(Access access) { return static_cast<tile::Eviction>(access.eviction); }
static_assert(static_cast<int>(Cache::write_through) ==
              static_cast<int>(tile::Cache::WriteThrough));
static_assert(static_cast<int>(Eviction::last) == static_cast<int>(tile::Eviction::Last));

Value advance(const Value &ptr, const Operand &offset, bool backwards) {
  Trace &trace = Trace::current(offset.where);
  mlir::Location loc = trace.location(offset.where);
  Kind kind = offset.value ? offset.kind : Kind::index;
  if (!isInteger(kind))
    fail(offset.where, "a pointer moves by integers, not by " + Twine(std::string(nameOf(kind))) +
                           ": convert with sc::cast<int>(x)");
  mlir::Value from = trace.get(ptr, offset.where);
  mlir::Value by = materialize(trace, offset, kind);
  // Offsets are signed: an unsigned number gets the room it needs.
  if (kind == Kind::index || !isUnsigned(kind) || bitsOf(kind) < 32)
    by = convert(trace, loc, by, kind, Kind::index,
                 kind == Kind::index ? getElementTypeOrSelf(by.getType())
                                     : trace.builder.getIntegerType(std::max(32u, bitsOf(kind))));
  else
    by = convert(trace, loc, by, kind, Kind::int64, trace.builder.getI64Type());
  if (backwards)
    by =
        trace.builder.createOrFold<arith::SubIOp>(loc, constantOf(trace, loc, by.getType(), 0), by);
  SmallVector<int64_t> shape = broadcastShape({from, by}, "a pointer and its offset", offset.where);
  return trace.wrap(trace.builder.createOrFold<tile::AddPtrOp>(
      loc, broadcastTo(trace, loc, from, shape), broadcastTo(trace, loc, by, shape)));
}

mlir::Value maskFor(Trace &trace, mlir::Location loc, mlir::Value &ptr, const Operand &mask,
                    Location where) {
  if (mask.none)
    return {};
  if (mask.value && !isBool(mask.kind))
    fail(mask.where, "a mask is bool, not " + Twine(std::string(nameOf(mask.kind))) +
                         ": compare first, as in i < n");
  mlir::Value value = materialize(trace, mask, Kind::boolean);
  SmallVector<int64_t> shape = broadcastShape({ptr, value}, "pointers and their mask", where);
  ptr = broadcastTo(trace, loc, ptr, shape);
  return broadcastTo(trace, loc, value, shape);
}

mlir::Type memoryElement(Trace &trace, Kind kind) {
  return isBool(kind) ? trace.builder.getI8Type() : elementTypeOf(trace, kind);
}

mlir::Value valueForMemory(Trace &trace, mlir::Location loc, Kind kind, const Operand &value,
                           ArrayRef<int64_t> shape, StringRef what) {
  Kind from = value.value ? value.kind : kind;
  if (isFloat(from) && !isFloat(kind))
    fail(value.where, what + " of " + Twine(std::string(nameOf(from))) + " for memory of " +
                          std::string(nameOf(kind)) + ": convert it, as in sc::cast<int>(x)");
  mlir::Value result = materialize(trace, value, from);
  ArrayRef<int64_t> given = tile::shapeOf(result.getType());
  result = convert(trace, loc, result, from, kind, elementTypeOf(trace, kind));
  if (isBool(kind))
    result = trace.builder.createOrFold<arith::ExtUIOp>(
        loc, tile::withElementType(result.getType(), trace.builder.getI8Type()), result);
  bool fits = given.size() <= shape.size();
  for (size_t i = 0; fits && i < given.size(); ++i)
    fits = given[i] == 1 || given[i] == shape[shape.size() - given.size() + i];
  if (!fits)
    fail(value.where,
         what + " of shape " + shapeText(given) + " does not fit into " + shapeText(shape));
  return broadcastTo(trace, loc, result, shape);
}

mlir::Value fromMemory(Trace &trace, mlir::Location loc, Kind kind, mlir::Value value) {
  if (!isBool(kind))
    return value;
  return arith::CmpIOp::create(trace.builder, loc, arith::CmpIPredicate::ne, value,
                               constantOf(trace, loc, value.getType(), 0));
}

void checkLoad(Access access, Location where) {
  if (access.cache == Cache::write_back || access.cache == Cache::write_through)
    fail(where, "Cache::write_back and Cache::write_through are for stores: loads have all_levels, "
                "global, streaming and uncached");
}

void checkStore(Access access, Location where) {
  if (access.cache == Cache::all_levels)
    fail(where, "Cache::all_levels is for loads: stores have global, streaming, uncached, "
                "write_back and write_through");
}

Value load(const Value &ptr, Kind kind, const Operand &mask, const Operand &other, Access access,
           Location where) {
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  checkLoad(access, where);
  if (!other.none && mask.none)
    fail(where, "sc::load has `other` without a mask: it is what masked elements give");
  mlir::Value from = trace.get(ptr, where);
  mlir::Value maskValue = maskFor(trace, loc, from, mask, where);
  ArrayRef<int64_t> shape = tile::shapeOf(from.getType());
  mlir::Value otherValue;
  if (!other.none)
    otherValue = valueForMemory(trace, loc, kind, other, shape, "sc::load: `other`");
  mlir::Type type = tensorOrScalar(shape, memoryElement(trace, kind));
  mlir::Value result = tile::LoadOp::create(
      trace.builder, loc, type, from, maskValue, otherValue, cacheOf(access), evictionOf(access),
      /*isVolatile=*/access.cache == Cache::uncached, /*vector=*/IntegerAttr());
  return trace.wrap(fromMemory(trace, loc, kind, result));
}

void store(const Value &ptr, Kind kind, const Operand &value, const Operand &mask, Access access,
           Location where) {
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  checkStore(access, where);
  if (value.none)
    fail(where, "sc::store has no value to store");
  mlir::Value to = trace.get(ptr, where);
  mlir::Value maskValue = maskFor(trace, loc, to, mask, where);
  mlir::Value stored =
      valueForMemory(trace, loc, kind, value, tile::shapeOf(to.getType()), "sc::store: a value");
  tile::StoreOp::create(trace.builder, loc, to, stored, maskValue, cacheOf(access),
                        evictionOf(access), /*vector=*/IntegerAttr());
}

} // namespace sectile::detail
