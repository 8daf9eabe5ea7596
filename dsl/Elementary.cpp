// The rest of the elementary functions of floats.
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <sectile/elementary.h>

using namespace mlir;

namespace sectile::detail {
namespace {

/// Floats of one kind, in the type they are computed in.
class Reals {
public:
  Reals(Trace &trace, Kind kind, Location where)
      : trace(trace), builder(trace.builder), loc(trace.location(where)), kind(kind),
        computed(bitsOf(kind) < 32 ? Kind::float32 : kind) {}

  mlir::Value widened(mlir::Value value) {
    return convert(trace, loc, value, kind, computed, elementTypeOf(trace, computed));
  }
  Value rounded(mlir::Value value) {
    return trace.wrap(convert(trace, loc, value, computed, kind, elementTypeOf(trace, kind)));
  }
  bool isDouble() const { return computed == Kind::float64; }

  mlir::Value number(mlir::Value like, double value) {
    mlir::Type element = getElementTypeOrSelf(like.getType());
    auto attr = FloatAttr::get(element, value);
    if (auto tensor = dyn_cast<RankedTensorType>(like.getType()))
      return arith::ConstantOp::create(builder, loc,
                                       SplatElementsAttr::get(tensor, Attribute(attr)));
    return arith::ConstantOp::create(builder, loc, attr);
  }
  mlir::Value integer(mlir::Value like, int64_t value) {
    return constantOf(trace, loc, like.getType(), value);
  }
  template <class Op> mlir::Value make(mlir::Value a) { return builder.createOrFold<Op>(loc, a); }
  template <class Op> mlir::Value make(mlir::Value a, mlir::Value b) {
    return builder.createOrFold<Op>(loc, a, b);
  }
  mlir::Value compare(arith::CmpFPredicate predicate, mlir::Value a, mlir::Value b) {
    return builder.createOrFold<arith::CmpFOp>(loc, predicate, a, b);
  }
  mlir::Value compare(arith::CmpIPredicate predicate, mlir::Value a, mlir::Value b) {
    return builder.createOrFold<arith::CmpIOp>(loc, predicate, a, b);
  }
  mlir::Value choose(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return builder.createOrFold<arith::SelectOp>(loc, condition, a, b);
  }

  Trace &trace;
  OpBuilder &builder;
  mlir::Location loc;
  Kind kind, computed;
};

/// The angle of the point (x, y). Upstream folds that of two constant zeros to NaN, so the
/// operation is given (1, 0) or (-1, 0) for the origin, whose angles are the same.
mlir::Value angleOf(Reals &r, mlir::Value y, mlir::Value x) {
  using Predicate = arith::CmpFPredicate;
  mlir::Value zero = r.number(x, 0);
  mlir::Value isOrigin =
      r.make<arith::AndIOp>(r.compare(Predicate::OEQ, x, zero), r.compare(Predicate::OEQ, y, zero));
  mlir::Value one = r.make<math::CopySignOp>(r.number(x, 1), x);
  return r.make<math::Atan2Op>(y, r.choose(isOrigin, one, x));
}

/// From C's remainder: what is left after whole pairs of y, then less one y or two.
mlir::Value nearestRemainder(Reals &r, mlir::Value x, mlir::Value y) {
  using Predicate = arith::CmpFPredicate;
  mlir::Value size = r.make<math::AbsFOp>(y);
  mlir::Value half = r.make<arith::MulFOp>(size, r.number(x, 0.5));
  // Where 2 y is infinite, x is less than that.
  mlir::Value pair = r.make<arith::AddFOp>(size, size);
  mlir::Value isHuge =
      r.compare(Predicate::OGT, size, r.number(x, r.isDouble() ? 0x1p1022 : 0x1p126));
  mlir::Value rest = r.make<math::AbsFOp>(r.make<arith::RemFOp>(x, r.choose(isHuge, size, pair)));
  rest = r.choose(isHuge, r.make<math::AbsFOp>(r.make<arith::RemFOp>(x, size)), rest);
  // With y tiny its half is not exact, the double of the rest is; the other way round beside
  // infinity.
  mlir::Value isTiny =
      r.compare(Predicate::OLT, size, r.number(x, r.isDouble() ? 0x1p-1021 : 0x1p-125));
  auto beyond = [&](Predicate predicate, mlir::Value value) {
    mlir::Value doubled = r.make<arith::AddFOp>(value, value);
    mlir::Value byDouble = r.compare(predicate, doubled, size);
    return r.choose(isTiny, byDouble, r.compare(predicate, value, half));
  };
  mlir::Value less = r.make<arith::SubFOp>(rest, size);
  mlir::Value twice = r.make<arith::SubFOp>(less, size);
  mlir::Value once = r.choose(beyond(Predicate::OGE, less), twice, less);
  mlir::Value result = r.choose(beyond(Predicate::OGT, rest), once, rest);
  mlir::Value signOfX = r.make<math::CopySignOp>(r.number(x, 1), x);
  mlir::Value isNegative = r.compare(Predicate::OLT, signOfX, r.number(x, 0));
  return r.choose(isNegative, r.make<arith::NegFOp>(result), result);
}

} // namespace

Value real(RealOp op, Kind kind, const Value &x, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Value value = trace.get(x, where);
  Reals r(trace, kind, where);
  mlir::Value wide = r.widened(value);
  auto result = [&]() -> mlir::Value {
    switch (op) {
    case RealOp::trunc:
      return r.make<math::TruncOp>(wide);
    case RealOp::tan:
      return r.make<math::TanOp>(wide);
    case RealOp::asin:
      return r.make<math::AsinOp>(wide);
    case RealOp::acos:
      return r.make<math::AcosOp>(wide);
    case RealOp::atan:
      return r.make<math::AtanOp>(wide);
    case RealOp::sinh:
      return r.make<math::SinhOp>(wide);
    case RealOp::cosh:
      return r.make<math::CoshOp>(wide);
    case RealOp::asinh:
      return r.make<math::AsinhOp>(wide);
    case RealOp::acosh:
      return r.make<math::AcoshOp>(wide);
    case RealOp::atanh:
      return r.make<math::AtanhOp>(wide);
    case RealOp::expm1:
      return r.make<math::ExpM1Op>(wide);
    case RealOp::log1p:
      return r.make<math::Log1pOp>(wide);
    case RealOp::log10:
      return r.make<math::Log10Op>(wide);
    case RealOp::exp10:
      return r.make<math::PowFOp>(r.number(wide, 10), wide);
    case RealOp::cbrt:
      return r.make<math::CbrtOp>(wide);
    }
    llvm_unreachable("every function is listed");
  }();
  return r.rounded(result);
}

Value real2(RealOp2 op, Kind kind, const Operand &a, const Operand &b, Location where) {
  static constexpr StringRef names[] = {"sc::pow", "sc::atan2", "sc::copysign", "sc::fmod",
                                        "sc::remainder"};
  StringRef name = names[static_cast<int>(op)];
  Trace &trace = Trace::current(where);
  if (!isFloat(kind))
    fail(where, name + " works on floats, not on " + std::string(nameOf(kind)) +
                    ": convert with sc::cast<float>(x)");
  auto ab = unify(trace, kind, {&a, &b}, name, where);
  Reals r(trace, kind, where);
  mlir::Value x = r.widened(ab[0]), y = r.widened(ab[1]);
  switch (op) {
  case RealOp2::pow:
    return r.rounded(r.make<math::PowFOp>(x, y));
  case RealOp2::atan2:
    return r.rounded(angleOf(r, x, y));
  case RealOp2::copysign:
    return r.rounded(r.make<math::CopySignOp>(x, y));
  case RealOp2::fmod:
    return r.rounded(r.make<arith::RemFOp>(x, y));
  case RealOp2::remainder:
    return r.rounded(nearestRemainder(r, x, y));
  }
  llvm_unreachable("every function is listed");
}

Value realTest(RealTest test, Kind kind, const Value &x, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Value value = trace.get(x, where);
  Reals r(trace, kind, where);
  mlir::Value wide = r.widened(value);
  if (test == RealTest::isnan)
    return trace.wrap(r.compare(arith::CmpFPredicate::UNO, wide, wide));
  mlir::Value infinity = r.number(wide, std::numeric_limits<double>::infinity());
  return trace.wrap(
      r.compare(test == RealTest::isinf ? arith::CmpFPredicate::OEQ : arith::CmpFPredicate::OLT,
                r.make<math::AbsFOp>(wide), infinity));
}

Value scaleByPower(Kind kind, const Operand &x, const Operand &exponent, Location where) {
  Trace &trace = Trace::current(where);
  if (exponent.value &&
      (!isInteger(exponent.kind) || (exponent.kind != Kind::index && bitsOf(exponent.kind) > 32)))
    fail(where, "sc::ldexp: the exponent is an integer of at most 32 bits, not " +
                    Twine(std::string(nameOf(exponent.kind))) + ": convert with sc::cast<int>(n)");
  Reals r(trace, kind, where);
  mlir::Value value = r.widened(materialize(trace, x, kind));
  bool isDouble = r.isDouble();
  Kind integer = isDouble ? Kind::int64 : Kind::int32;
  mlir::Type word = elementTypeOf(trace, integer);
  mlir::Value n = materialize(trace, exponent, Kind::int32);
  // An Int of 64 bits is bounded first, so that nothing wraps.
  if (getElementTypeOrSelf(n.getType()).isInteger(64) && !isDouble) {
    n = r.make<arith::MaxSIOp>(n, r.integer(n, -4096));
    n = r.make<arith::MinSIOp>(n, r.integer(n, 4096));
  }
  n = convert(trace, r.loc, n, exponent.value ? exponent.kind : Kind::int32, integer, word);
  SmallVector<int64_t> shape = broadcastShape({value, n}, "sc::ldexp", where);
  value = broadcastTo(trace, r.loc, value, shape);
  n = broadcastTo(trace, r.loc, n, shape);
  const int64_t largest = isDouble ? 1023 : 127, mantissa = isDouble ? 52 : 23;
  auto power = [&](mlir::Value at) {
    mlir::Value code = r.make<arith::AddIOp>(at, r.integer(at, largest));
    code = r.make<arith::ShLIOp>(code, r.integer(at, mantissa));
    return r.builder.createOrFold<arith::BitcastOp>(r.loc, value.getType(), code);
  };
  // Factors that are normal numbers. On the way down only the last may round: what the first leave
  // subnormal is zero in the end.
  auto step = [&](arith::CmpIPredicate predicate, int64_t bound, int64_t by) {
    for (int i = 0; i < 2; ++i) {
      mlir::Value applies = r.compare(predicate, n, r.integer(n, bound));
      mlir::Value moved =
          r.make<arith::MulFOp>(value, r.number(value, std::ldexp(1.0, static_cast<int>(by))));
      value = r.choose(applies, moved, value);
      n = r.choose(applies, r.make<arith::SubIOp>(n, r.integer(n, by)), n);
    }
  };
  step(arith::CmpIPredicate::sgt, largest, largest);
  step(arith::CmpIPredicate::slt, 1 - largest, 1 - largest + mantissa + 1);
  n = r.make<arith::MinSIOp>(n, r.integer(n, largest));
  n = r.make<arith::MaxSIOp>(n, r.integer(n, 1 - largest));
  return r.rounded(r.make<arith::MulFOp>(value, power(n)));
}

} // namespace sectile::detail
