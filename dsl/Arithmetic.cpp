// Operators: arithmetic, bits, comparisons.
#include "dsl/Trace.h"
#include "ir/tile/Overflow.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace sectile::detail {

static StringRef symbolOf(BinaryOp op) {
  static constexpr StringRef symbols[] = {"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"};
  return symbols[static_cast<int>(op)];
}

template <class Op>
static mlir::Value emit(Trace &trace, mlir::Location loc, ArrayRef<mlir::Value> operands) {
  return trace.builder.createOrFold<Op>(loc, operands[0], operands[1]);
}

static mlir::Value floatBinary(Trace &trace, mlir::Location loc, BinaryOp op,
                               ArrayRef<mlir::Value> ab) {
  switch (op) {
  case BinaryOp::add:
    return emit<arith::AddFOp>(trace, loc, ab);
  case BinaryOp::sub:
    return emit<arith::SubFOp>(trace, loc, ab);
  case BinaryOp::mul:
    return emit<arith::MulFOp>(trace, loc, ab);
  case BinaryOp::div:
    return emit<arith::DivFOp>(trace, loc, ab);
  default:
    return emit<arith::RemFOp>(trace, loc, ab);
  }
}

static mlir::Value integerBinary(Trace &trace, mlir::Location loc, BinaryOp op, Kind kind,
                                 ArrayRef<mlir::Value> ab) {
  const bool isUnsigned = sectile::detail::isUnsigned(kind);
  if (kind == Kind::index) {
    switch (op) {
    case BinaryOp::add:
      return tile::createToFit<arith::AddIOp>(trace.builder, loc, ab[0], ab[1]);
    case BinaryOp::sub:
      return tile::createToFit<arith::SubIOp>(trace.builder, loc, ab[0], ab[1]);
    case BinaryOp::mul:
      return tile::createToFit<arith::MulIOp>(trace.builder, loc, ab[0], ab[1]);
    case BinaryOp::shl:
      return tile::createToFit<arith::ShLIOp>(trace.builder, loc, ab[0], ab[1]);
    case BinaryOp::div:
      return tile::createToFit<arith::DivSIOp>(trace.builder, loc, ab[0], ab[1]);
    case BinaryOp::rem:
      return tile::createToFit<arith::RemSIOp>(trace.builder, loc, ab[0], ab[1]);
    default:
      break;
    }
  }
  switch (op) {
  case BinaryOp::add:
    return emit<arith::AddIOp>(trace, loc, ab);
  case BinaryOp::sub:
    return emit<arith::SubIOp>(trace, loc, ab);
  case BinaryOp::mul:
    return emit<arith::MulIOp>(trace, loc, ab);
  case BinaryOp::div:
    return isUnsigned ? emit<arith::DivUIOp>(trace, loc, ab) : emit<arith::DivSIOp>(trace, loc, ab);
  case BinaryOp::rem:
    return isUnsigned ? emit<arith::RemUIOp>(trace, loc, ab) : emit<arith::RemSIOp>(trace, loc, ab);
  case BinaryOp::bit_and:
    return emit<arith::AndIOp>(trace, loc, ab);
  case BinaryOp::bit_or:
    return emit<arith::OrIOp>(trace, loc, ab);
  case BinaryOp::bit_xor:
    return emit<arith::XOrIOp>(trace, loc, ab);
  case BinaryOp::shl:
    return emit<arith::ShLIOp>(trace, loc, ab);
  case BinaryOp::shr:
    return isUnsigned ? emit<arith::ShRUIOp>(trace, loc, ab) : emit<arith::ShRSIOp>(trace, loc, ab);
  }
  llvm_unreachable("every operator is listed");
}

/// A literal on the right of integers for which the result is undefined, whatever is on the left.
static void checkRight(BinaryOp op, Kind kind, unsigned bits, const Literal &right,
                       Location where) {
  if (isFloat(kind) || right.type == Literal::Type::floating)
    return;
  // An Int may be wider in another launch.
  const unsigned most = kind == Kind::index ? 64 : bits;
  const bool isNegative = right.type != Literal::Type::natural && right.integer < 0;
  if ((op == BinaryOp::div || op == BinaryOp::rem) && right.natural == 0)
    fail(where, "operator " + symbolOf(op) + ": integers cannot be divided by 0");
  if ((op == BinaryOp::shl || op == BinaryOp::shr) && (isNegative || right.natural >= most))
    fail(where, "operator " + symbolOf(op) + " by " +
                    (isNegative ? std::to_string(right.integer) : std::to_string(right.natural)) +
                    ": numbers of " + Twine(most) + " bits shift by 0 to " + Twine(most - 1));
}

Value binary(BinaryOp op, Kind kind, const Operand &a, const Operand &b) {
  Location where = a.where;
  Trace &trace = Trace::current(where);
  std::string what = ("operator " + symbolOf(op)).str();
  bool onBits = op >= BinaryOp::bit_and;
  if (isFloat(kind) && onBits)
    fail(where, what + " works on integers, not on " + std::string(nameOf(kind)) +
                    ": sc::bitcast gives the bits of a float");
  if (isBool(kind) && (!onBits || op >= BinaryOp::shl))
    fail(where, what + " works on numbers, not on bool: use &, | and ^, or sc::cast<int>(x)");
  mlir::Location loc = trace.location(where);
  // The hardware has no arithmetic on fp8: compute in f32 and round once.
  Kind computed = isFloat(kind) && bitsOf(kind) == 8 ? Kind::float32 : kind;
  SmallVector<mlir::Value> ab;
  if (computed != kind) {
    ab = unify(trace, kind, {&a, &b}, what, where);
    for (mlir::Value &value : ab)
      value = convert(trace, loc, value, kind, computed, elementTypeOf(trace, computed));
  } else {
    ab = unify(trace, kind, {&a, &b}, what, where);
  }
  if (!b.value)
    checkRight(op, kind, bitsOf(kind), b.literal, where);
  mlir::Value result =
      isFloat(kind) ? floatBinary(trace, loc, op, ab) : integerBinary(trace, loc, op, kind, ab);
  return trace.wrap(convert(trace, loc, result, computed, kind,
                            computed == kind ? getElementTypeOrSelf(result.getType())
                                             : elementTypeOf(trace, kind)));
}

Value update(BinaryOp op, Kind kind, const Operand &a, const Operand &b) {
  Kind result = b.value ? promote(kind, b.kind) : kind;
  if (result != kind)
    fail(b.where, Twine(std::string(nameOf(kind))) + " " + symbolOf(op) + "= " +
                      std::string(nameOf(b.kind)) + " gives " + std::string(nameOf(result)) +
                      ", which the variable cannot hold: convert the right side, as in x " +
                      symbolOf(op) + "= sc::cast<...>(y)");
  Operand left = a;
  left.where = b.where;
  return binary(op, kind, left, b);
}

Value logical(BinaryOp op, const Operand &a, const Operand &b) {
  Trace &trace = Trace::current(a.where);
  for (const Operand *operand : {&a, &b})
    if (operand->value && !isBool(operand->kind))
      fail(a.where, "&&, || and ! work on bool, not on " +
                        Twine(std::string(nameOf(operand->kind))) +
                        ": compare first, as in x != 0");
  auto ab = unify(trace, Kind::boolean, {&a, &b}, "a logical operator", a.where);
  return trace.wrap(integerBinary(trace, trace.location(a.where), op, Kind::boolean, ab));
}

Value logicalNot(const Value &a) {
  Trace &trace = Trace::current({});
  mlir::Value value = trace.get(a, {});
  mlir::Location loc = value.getLoc();
  mlir::Value ones = constantOf(trace, loc, value.getType(), -1);
  return trace.wrap(trace.builder.createOrFold<arith::XOrIOp>(loc, value, ones));
}

Value unary(UnaryOp op, Kind kind, const Operand &a) {
  Trace &trace = Trace::current(a.where);
  mlir::Location loc = trace.location(a.where);
  mlir::Value value = materialize(trace, a, kind);
  if (op == UnaryOp::bit_not) {
    if (isFloat(kind))
      fail(a.where, "operator ~ works on integers, not on " + Twine(std::string(nameOf(kind))) +
                        ": sc::bitcast gives the bits of a float");
    mlir::Value ones = constantOf(trace, loc, value.getType(), -1);
    return trace.wrap(trace.builder.createOrFold<arith::XOrIOp>(loc, value, ones));
  }
  if (isBool(kind))
    fail(a.where, "operator - works on numbers, not on bool: write !x for the opposite");
  if (!isFloat(kind)) {
    mlir::Value zero = constantOf(trace, loc, value.getType(), 0);
    return trace.wrap(integerBinary(trace, loc, BinaryOp::sub, kind, {zero, value}));
  }
  Kind computed = bitsOf(kind) == 8 ? Kind::float32 : kind;
  value = convert(trace, loc, value, kind, computed, elementTypeOf(trace, computed));
  value = trace.builder.createOrFold<arith::NegFOp>(loc, value);
  return trace.wrap(convert(trace, loc, value, computed, kind, elementTypeOf(trace, kind)));
}

Value compare(CompareOp op, const Operand &a, const Operand &b) {
  using Int = arith::CmpIPredicate;
  using Float = arith::CmpFPredicate;
  static constexpr Int signedPredicates[] = {Int::eq,  Int::ne,  Int::slt,
                                             Int::sle, Int::sgt, Int::sge};
  static constexpr Int unsignedPredicates[] = {Int::eq,  Int::ne,  Int::ult,
                                               Int::ule, Int::ugt, Int::uge};
  static constexpr Float floatPredicates[] = {Float::OEQ, Float::UNE, Float::OLT,
                                              Float::OLE, Float::OGT, Float::OGE};
  Trace &trace = Trace::current(a.where);
  mlir::Location loc = trace.location(a.where);
  Kind kind = commonKind({&a, &b});
  auto ab = unify(trace, kind, {&a, &b}, "a comparison", a.where);
  int i = static_cast<int>(op);
  if (!isFloat(kind)) {
    Int predicate = isUnsigned(kind) || isBool(kind) ? unsignedPredicates[i] : signedPredicates[i];
    return trace.wrap(trace.builder.createOrFold<arith::CmpIOp>(loc, predicate, ab[0], ab[1]));
  }
  if (bitsOf(kind) == 8)
    for (mlir::Value &value : ab)
      value = convert(trace, loc, value, kind, Kind::float32, trace.builder.getF32Type());
  return trace.wrap(
      trace.builder.createOrFold<arith::CmpFOp>(loc, floatPredicates[i], ab[0], ab[1]));
}

} // namespace sectile::detail
