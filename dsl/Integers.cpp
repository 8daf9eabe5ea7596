// Functions of integers, element by element.
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <sectile/integers.h>

using namespace mlir;

namespace sectile::detail {

static void checkInteger(Kind kind, const Twine &what, Location where) {
  if (!isInteger(kind))
    fail(where, what + " works on integers, not on " + Twine(std::string(nameOf(kind))) +
                    ": sc::cast<int>(x) converts, sc::bitcast gives the bits of a float");
  if (kind == Kind::index)
    fail(where, what + " depends on how wide its operand is, and an Int is as wide as the launch "
                       "needs it: write sc::cast<std::int32_t>(x) or sc::cast<std::int64_t>(x)");
}

Value highProduct(Kind kind, const Operand &a, const Operand &b, Location where) {
  Trace &trace = Trace::current(where);
  checkInteger(kind, "sc::mulhi", where);
  mlir::Location loc = trace.location(where);
  auto ab = unify(trace, kind, {&a, &b}, "sc::mulhi", where);
  if (isUnsigned(kind))
    return trace.wrap(arith::MulUIExtendedOp::create(trace.builder, loc, ab[0], ab[1]).getHigh());
  return trace.wrap(arith::MulSIExtendedOp::create(trace.builder, loc, ab[0], ab[1]).getHigh());
}

/// Swaps neighbours, pairs, groups of four and so on.
static mlir::Value reversed(Trace &trace, mlir::Location loc, mlir::Value x, unsigned bits) {
  OpBuilder &builder = trace.builder;
  for (unsigned distance = 1; distance < bits; distance *= 2) {
    uint64_t mask = 0;
    for (unsigned bit = 0; bit < 64; ++bit)
      mask |= uint64_t(bit / distance % 2 == 0) << bit;
    mlir::Value low = constantOf(trace, loc, x.getType(), static_cast<int64_t>(mask));
    mlir::Value by = constantOf(trace, loc, x.getType(), distance);
    mlir::Value up = builder.createOrFold<arith::AndIOp>(loc, x, low);
    up = builder.createOrFold<arith::ShLIOp>(loc, up, by);
    mlir::Value down = builder.createOrFold<arith::ShRUIOp>(loc, x, by);
    down = builder.createOrFold<arith::AndIOp>(loc, down, low);
    x = builder.createOrFold<arith::OrIOp>(loc, up, down);
  }
  return x;
}

Value bits(BitOp op, Kind kind, const Value &x, Location where) {
  static constexpr StringRef names[] = {"popcount", "clz", "ctz", "ffs", "brev"};
  Trace &trace = Trace::current(where);
  mlir::Value value = trace.get(x, where);
  checkInteger(kind, "sc::" + names[static_cast<int>(op)], where);
  mlir::Location loc = trace.location(where);
  OpBuilder &builder = trace.builder;
  mlir::Value count;
  switch (op) {
  case BitOp::brev:
    return trace.wrap(reversed(trace, loc, value, bitsOf(kind)));
  case BitOp::popcount:
    count = builder.createOrFold<math::CtPopOp>(loc, value);
    break;
  case BitOp::clz:
    count = builder.createOrFold<math::CountLeadingZerosOp>(loc, value);
    break;
  case BitOp::ctz:
  case BitOp::ffs:
    count = builder.createOrFold<math::CountTrailingZerosOp>(loc, value);
    break;
  }
  mlir::Type i32 = builder.getI32Type();
  count =
      convert(trace, loc, count, bitsOf(kind) == 64 ? Kind::uint64 : Kind::uint8, Kind::int32, i32);
  if (op == BitOp::ffs) {
    mlir::Value isZero = builder.createOrFold<arith::CmpIOp>(
        loc, arith::CmpIPredicate::eq, value, constantOf(trace, loc, value.getType(), 0));
    mlir::Value one = constantOf(trace, loc, count.getType(), 1);
    count = builder.createOrFold<arith::AddIOp>(loc, count, one);
    mlir::Value zero = constantOf(trace, loc, count.getType(), 0);
    count = builder.createOrFold<arith::SelectOp>(loc, isZero, zero, count);
  }
  return trace.wrap(count);
}

} // namespace sectile::detail
