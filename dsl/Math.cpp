// Mathematics element by element.
#include "mlir/Dialect/Math/IR/Math.h"
#include "dsl/Trace.h"
#include "ir/tile/Overflow.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <sectile/approximate.h>
#include <sectile/math.h>

using namespace mlir;

namespace sectile::detail {

static StringRef nameOfOp(MathOp op) {
  static constexpr StringRef names[] = {"abs", "exp",   "exp2", "log",   "log2",
                                        "sin", "cos",   "sqrt", "rsqrt", "tanh",
                                        "erf", "floor", "ceil", "round", "rint"};
  return names[static_cast<int>(op)];
}

template <class Op> static mlir::Value emit(Trace &trace, mlir::Location loc, mlir::Value x) {
  return trace.builder.createOrFold<Op>(loc, x);
}

static mlir::Value floatMath(Trace &trace, mlir::Location loc, MathOp op, mlir::Value x) {
  switch (op) {
  case MathOp::abs:
    return emit<math::AbsFOp>(trace, loc, x);
  case MathOp::exp:
    return emit<math::ExpOp>(trace, loc, x);
  case MathOp::exp2:
    return emit<math::Exp2Op>(trace, loc, x);
  case MathOp::log:
    return emit<math::LogOp>(trace, loc, x);
  case MathOp::log2:
    return emit<math::Log2Op>(trace, loc, x);
  case MathOp::sin:
    return emit<math::SinOp>(trace, loc, x);
  case MathOp::cos:
    return emit<math::CosOp>(trace, loc, x);
  case MathOp::sqrt:
    return emit<math::SqrtOp>(trace, loc, x);
  case MathOp::rsqrt:
    return emit<math::RsqrtOp>(trace, loc, x);
  case MathOp::tanh:
    return emit<math::TanhOp>(trace, loc, x);
  case MathOp::erf:
    return emit<math::ErfOp>(trace, loc, x);
  case MathOp::floor:
    return emit<math::FloorOp>(trace, loc, x);
  case MathOp::ceil:
    return emit<math::CeilOp>(trace, loc, x);
  case MathOp::round:
    return emit<math::RoundOp>(trace, loc, x);
  case MathOp::rint:
    return emit<math::RoundEvenOp>(trace, loc, x);
  }
  llvm_unreachable("every function is listed");
}

Value math(MathOp op, Kind kind, const Value &x, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  mlir::Value value = trace.get(x, where);
  if (!isFloat(kind)) {
    if (isBool(kind))
      fail(where, "sc::" + nameOfOp(op) + " works on numbers, not on bool");
    return trace.wrap(isUnsigned(kind) ? value : emit<math::AbsIOp>(trace, loc, value));
  }
  // abs is exact in any format that has an instruction for it.
  bool narrow = bitsOf(kind) < 32 && !(op == MathOp::abs && bitsOf(kind) == 16);
  Kind computed = narrow ? Kind::float32 : kind;
  value = convert(trace, loc, value, kind, computed, elementTypeOf(trace, computed));
  value = floatMath(trace, loc, op, value);
  return trace.wrap(convert(trace, loc, value, computed, kind, elementTypeOf(trace, kind)));
}

Value fastExp(const Value &x, Location where) {
  Trace &trace = Trace::current(where);
  return trace.wrap(trace.builder.createOrFold<math::ExpOp>(
      trace.location(where), trace.get(x, where), arith::FastMathFlags::afn));
}

Value fastDivide(const Operand &x, const Operand &y, Location where) {
  Trace &trace = Trace::current(where);
  auto xy = unify(trace, Kind::float32, {&x, &y}, "sc::fast_divide", where);
  return trace.wrap(trace.builder.createOrFold<arith::DivFOp>(trace.location(where), xy[0], xy[1],
                                                              arith::FastMathFlags::afn));
}

/// Operands of one kind and shape; those of fp8 in float32, which is then the kind.
static SmallVector<mlir::Value> computable(Trace &trace, Kind &kind,
                                           ArrayRef<const Operand *> operands, StringRef what,
                                           Location where) {
  SmallVector<mlir::Value> values = unify(trace, kind, operands, what, where);
  if (!isFloat(kind) || bitsOf(kind) > 8)
    return values;
  for (mlir::Value &value : values)
    value = convert(trace, trace.location(where), value, kind, Kind::float32,
                    trace.builder.getF32Type());
  kind = Kind::float32;
  return values;
}

static Value rounded(Trace &trace, Location where, mlir::Value value, Kind computed, Kind kind) {
  if (computed == kind)
    return trace.wrap(value);
  return trace.wrap(
      convert(trace, trace.location(where), value, computed, kind, elementTypeOf(trace, kind)));
}

Value minMax(bool maximum, Kind kind, const Operand &a, const Operand &b, Nan nan, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  OpBuilder &builder = trace.builder;
  Kind computed = kind;
  auto ab = computable(trace, computed, {&a, &b}, maximum ? "sc::maximum" : "sc::minimum", where);
  mlir::Value result;
  if (isFloat(kind)) {
    if (nan == Nan::propagate)
      result = maximum ? builder.createOrFold<arith::MaximumFOp>(loc, ab[0], ab[1])
                       : builder.createOrFold<arith::MinimumFOp>(loc, ab[0], ab[1]);
    else
      result = maximum ? builder.createOrFold<tile::MaximumNumberOp>(loc, ab[0], ab[1])
                       : builder.createOrFold<tile::MinimumNumberOp>(loc, ab[0], ab[1]);
  } else if (isUnsigned(kind) || isBool(kind)) {
    result = maximum ? builder.createOrFold<arith::MaxUIOp>(loc, ab[0], ab[1])
                     : builder.createOrFold<arith::MinUIOp>(loc, ab[0], ab[1]);
  } else {
    result = maximum ? builder.createOrFold<arith::MaxSIOp>(loc, ab[0], ab[1])
                     : builder.createOrFold<arith::MinSIOp>(loc, ab[0], ab[1]);
  }
  return rounded(trace, where, result, computed, kind);
}

Value multiplyAdd(Kind kind, const Operand &a, const Operand &b, const Operand &c, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  if (isBool(kind))
    fail(where, "sc::fma works on numbers, not on bool: convert with sc::cast<float>(x)");
  Kind computed = kind;
  auto abc = computable(trace, computed, {&a, &b, &c}, "sc::fma", where);
  mlir::Value result;
  if (isFloat(kind)) {
    result = trace.builder.createOrFold<math::FmaOp>(loc, abc[0], abc[1], abc[2]);
  } else {
    const bool fits = kind == Kind::index;
    OpBuilder &builder = trace.builder;
    result = fits ? tile::createToFit<arith::MulIOp>(builder, loc, abc[0], abc[1])
                  : builder.createOrFold<arith::MulIOp>(loc, abc[0], abc[1]);
    result = fits ? tile::createToFit<arith::AddIOp>(builder, loc, result, abc[2])
                  : builder.createOrFold<arith::AddIOp>(loc, result, abc[2]);
  }
  return rounded(trace, where, result, computed, kind);
}

Value select(Kind kind, const Operand &condition, const Operand &a, const Operand &b,
             Location where) {
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  if (condition.value && !isBool(condition.kind))
    fail(where, "sc::where chooses by bool, not by " + Twine(std::string(nameOf(condition.kind))) +
                    ": compare first, as in x != 0");
  auto values = convertAll(trace, kind, {&a, &b}, where);
  values.push_back(materialize(trace, condition, Kind::boolean));
  SmallVector<int64_t> shape = broadcastShape(values, "sc::where", where);
  for (mlir::Value &value : values)
    value = broadcastTo(trace, loc, value, shape);
  return trace.wrap(
      trace.builder.createOrFold<arith::SelectOp>(loc, values[2], values[0], values[1]));
}

Value ceilDiv(Kind kind, const Operand &a, const Operand &b, Location where) {
  Trace &trace = Trace::current(where);
  if (!isInteger(kind))
    fail(where, "sc::cdiv divides integers, not " + Twine(std::string(nameOf(kind))) +
                    ": sc::ceil(a / b) is what floats have");
  mlir::Location loc = trace.location(where);
  auto ab = unify(trace, kind, {&a, &b}, "sc::cdiv", where);
  OpBuilder &builder = trace.builder;
  if (kind == Kind::index) {
    mlir::Value one = constantOf(trace, loc, ab[1].getType(), 1);
    mlir::Value sum = tile::createToFit<arith::AddIOp>(
        builder, loc, ab[0], tile::createToFit<arith::SubIOp>(builder, loc, ab[1], one));
    return trace.wrap(tile::createToFit<arith::DivSIOp>(builder, loc, sum, ab[1]));
  }
  // Near the end of the type a + b - 1 would wrap.
  mlir::Value quotient = isUnsigned(kind) ? builder.createOrFold<arith::DivUIOp>(loc, ab[0], ab[1])
                                          : builder.createOrFold<arith::DivSIOp>(loc, ab[0], ab[1]);
  mlir::Value whole = builder.createOrFold<arith::MulIOp>(loc, quotient, ab[1]);
  mlir::Value hasRest =
      builder.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::ne, whole, ab[0]);
  mlir::Value rest = builder.createOrFold<arith::ExtUIOp>(loc, ab[0].getType(), hasRest);
  return trace.wrap(builder.createOrFold<arith::AddIOp>(loc, quotient, rest));
}

Value bitcast(Kind from, Kind to, const Value &x, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  mlir::Value value = trace.get(x, where);
  mlir::Type type = tile::withElementType(value.getType(), elementTypeOf(trace, to));
  if (type == value.getType() || isInteger(from) == isInteger(to)) {
    if (type == value.getType())
      return trace.wrap(value);
    // Between two float formats of one size: through their bits.
    mlir::Type bits = tile::withElementType(type, trace.builder.getIntegerType(bitsOf(from)));
    value = arith::BitcastOp::create(trace.builder, loc, bits, value);
  }
  return trace.wrap(arith::BitcastOp::create(trace.builder, loc, type, value));
}

} // namespace sectile::detail
