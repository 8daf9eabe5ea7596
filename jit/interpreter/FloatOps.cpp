// Arithmetic on floats: computed in double and rounded once to the type.
#include "jit/interpreter/Elementwise.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <cmath>

using namespace mlir;

namespace sectile::interpreter {
namespace {

/// An operand as doubles, of which a scalar stands for a tile.
class Doubles {
public:
  explicit Doubles(const Elements &elements)
      : values(elements.asDoubles()), step(elements.shape.empty() ? 0 : 1) {}
  double operator[](size_t i) const { return values[i * step]; }

private:
  std::vector<double> values;
  size_t step;
};

template <auto f> void unary(Run &run, Operation &op) {
  Elements result = resultFor(run, op);
  const Doubles a(run.get(op.getOperand(0)));
  std::vector<double> values(result.size());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = f(a[i]);
  result.setDoubles(values);
  run.set(op.getResult(0), std::move(result));
}

template <auto f> void binary(Run &run, Operation &op) {
  Elements result = resultFor(run, op);
  const Doubles a(run.get(op.getOperand(0))), b(run.get(op.getOperand(1)));
  std::vector<double> values(result.size());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = f(a[i], b[i]);
  result.setDoubles(values);
  run.set(op.getResult(0), std::move(result));
}

void fma(Run &run, Operation &op) {
  Elements result = resultFor(run, op);
  const Doubles a(run.get(op.getOperand(0))), b(run.get(op.getOperand(1))),
      c(run.get(op.getOperand(2)));
  const bool wide = result.type.bits == 64;
  for (size_t i = 0; i < result.size(); ++i)
    result.words[i] = result.type.format->encode(wide ? std::fma(a[i], b[i], c[i])
                                                      : multiplyAddToOdd(a[i], b[i], c[i]));
  run.set(op.getResult(0), std::move(result));
}

/// The sign changes by itself, of a NaN too; where zero has none, neither does NaN.
template <bool clear> void changeSign(Run &run, Operation &op) {
  Elements result = resultFor(run, op);
  const Lanes a(run.get(op.getOperand(0)));
  const FloatFormat &format = *result.type.format;
  for (size_t i = 0; i < result.size(); ++i) {
    const uint64_t word = a[i];
    if (!format.hasMinusZero && (word == 0 || word == format.nan()))
      result.words[i] = word;
    else
      result.words[i] = clear ? word & ~format.signBit() : word ^ format.signBit();
  }
  run.set(op.getResult(0), std::move(result));
}

double minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return NAN;
  return a < b || (a == b && std::signbit(a)) ? a : b;
}
double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return NAN;
  return a > b || (a == b && !std::signbit(a)) ? a : b;
}
double minimumNumber(double a, double b) {
  return std::isnan(a) ? b : std::isnan(b) ? a : minimum(a, b);
}
double maximumNumber(double a, double b) {
  return std::isnan(a) ? b : std::isnan(b) ? a : maximum(a, b);
}

bool holds(arith::CmpFPredicate predicate, double a, double b) {
  using enum arith::CmpFPredicate;
  const bool unordered = std::isnan(a) || std::isnan(b);
  switch (predicate) {
  case AlwaysFalse:
    return false;
  case AlwaysTrue:
    return true;
  case OEQ:
    return a == b;
  case OGT:
    return a > b;
  case OGE:
    return a >= b;
  case OLT:
    return a < b;
  case OLE:
    return a <= b;
  case ONE:
    return !unordered && a != b;
  case ORD:
    return !unordered;
  case UEQ:
    return unordered || a == b;
  case UGT:
    return unordered || a > b;
  case UGE:
    return unordered || a >= b;
  case ULT:
    return unordered || a < b;
  case ULE:
    return unordered || a <= b;
  case UNE:
    return a != b;
  case UNO:
    return unordered;
  }
  llvm_unreachable("every comparison is listed");
}

void compare(Run &run, Operation &op) {
  Elements result = resultFor(run, op);
  const Doubles a(run.get(op.getOperand(0))), b(run.get(op.getOperand(1)));
  const arith::CmpFPredicate predicate = cast<arith::CmpFOp>(op).getPredicate();
  for (size_t i = 0; i < result.size(); ++i)
    result.words[i] = holds(predicate, a[i], b[i]);
  run.set(op.getResult(0), std::move(result));
}

} // namespace

void addFloats(Table &table) {
  table["arith.addf"] = binary<[](double a, double b) { return a + b; }>;
  table["arith.subf"] = binary<[](double a, double b) { return a - b; }>;
  table["arith.mulf"] = binary<[](double a, double b) { return a * b; }>;
  table["arith.divf"] = binary<[](double a, double b) { return a / b; }>;
  table["arith.remf"] = binary<[](double a, double b) { return std::fmod(a, b); }>;
  table["arith.negf"] = changeSign<false>;
  table["arith.minimumf"] = binary<minimum>;
  table["arith.maximumf"] = binary<maximum>;
  table["tile.minimum_number"] = binary<minimumNumber>;
  table["tile.maximum_number"] = binary<maximumNumber>;
  table["arith.cmpf"] = compare;
  table["math.fma"] = fma;
  table["math.absf"] = changeSign<true>;
  table["math.copysign"] = binary<[](double a, double b) { return std::copysign(a, b); }>;
  table["math.powf"] = binary<[](double a, double b) { return std::pow(a, b); }>;
  table["math.atan2"] = binary<[](double a, double b) { return std::atan2(a, b); }>;
  table["math.exp"] = unary<[](double x) { return std::exp(x); }>;
  table["math.exp2"] = unary<[](double x) { return std::exp2(x); }>;
  table["math.expm1"] = unary<[](double x) { return std::expm1(x); }>;
  table["math.log"] = unary<[](double x) { return std::log(x); }>;
  table["math.log2"] = unary<[](double x) { return std::log2(x); }>;
  table["math.log10"] = unary<[](double x) { return std::log10(x); }>;
  table["math.log1p"] = unary<[](double x) { return std::log1p(x); }>;
  // The C library's own of f64 are several units off where large angles are near a quarter turn.
  using Wide = long double;
  table["math.sin"] = unary<[](double x) { return double(std::sin(Wide(x))); }>;
  table["math.cos"] = unary<[](double x) { return double(std::cos(Wide(x))); }>;
  table["math.tan"] = unary<[](double x) { return double(std::tan(Wide(x))); }>;
  table["math.asin"] = unary<[](double x) { return std::asin(x); }>;
  table["math.acos"] = unary<[](double x) { return std::acos(x); }>;
  table["math.atan"] = unary<[](double x) { return std::atan(x); }>;
  table["math.sqrt"] = unary<[](double x) { return std::sqrt(x); }>;
  table["math.rsqrt"] = unary<[](double x) { return 1 / std::sqrt(x); }>;
  table["math.cbrt"] = unary<[](double x) { return std::cbrt(x); }>;
  table["math.sinh"] = unary<[](double x) { return std::sinh(x); }>;
  table["math.cosh"] = unary<[](double x) { return std::cosh(x); }>;
  table["math.asinh"] = unary<[](double x) { return std::asinh(x); }>;
  table["math.acosh"] = unary<[](double x) { return std::acosh(x); }>;
  table["math.atanh"] = unary<[](double x) { return std::atanh(x); }>;
  table["math.tanh"] = unary<[](double x) { return std::tanh(x); }>;
  table["math.erf"] = unary<[](double x) { return std::erf(x); }>;
  table["math.floor"] = unary<[](double x) { return std::floor(x); }>;
  table["math.ceil"] = unary<[](double x) { return std::ceil(x); }>;
  table["math.trunc"] = unary<[](double x) { return std::trunc(x); }>;
  table["math.round"] = unary<[](double x) { return std::round(x); }>;
  table["math.roundeven"] = unary<[](double x) { return std::nearbyint(x); }>;
}

} // namespace sectile::interpreter
