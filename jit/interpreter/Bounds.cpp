// Bounds of element-by-element operations.
#include "jit/interpreter/Bounds.h"
#include "ir/tile/Tile.h"
#include "jit/interpreter/Elementwise.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <algorithm>
#include <bit>
#include <cmath>

using namespace mlir;

namespace sectile::interpreter {

int lowestBitOf(double value) {
  if (value == 0 || !std::isfinite(value))
    return std::numeric_limits<int>::max();
  int exponent;
  const double mantissa = std::frexp(value, &exponent); // 53 bits below the point
  return exponent - 53 + std::countr_zero(uint64_t(std::ldexp(std::fabs(mantissa), 53)));
}

void setBound(Elements &result, size_t i, double bound) {
  if (bound == 0 && result.boundAt(i) == 0)
    return;
  result.bounds.resize(result.size());
  result.bounds[i] = std::isnan(bound) ? anything : bound;
}

void SumBound::add(double value, double bound) {
  (std::isfinite(value) ? magnitudes : infinite) += std::fabs(value) + bound;
  errors += bound;
  lowestBit = std::min(lowestBit, lowestBitOf(value));
  ++count;
}

double SumBound::of(double result) const {
  if (!(magnitudes < format->decode(format->largest())))
    return anything; // some order may overflow, with either sign
  if (infinite != 0)
    return errors == 0 && std::isnan(infinite) == std::isnan(result) ? 0 : anything;
  const int digits = int(format->mantissaBits) + 1,
            smallest = 1 - format->bias - int(format->mantissaBits);
  if (errors == 0 &&
      (magnitudes == 0 || (std::ilogb(magnitudes) - lowestBit < digits && lowestBit >= smallest)))
    return 0;
  // Matrix units may cut off what does not fit instead of rounding it.
  return errors + 4 * double(count + 1) * format->halfUlp(magnitudes);
}

namespace {

/// The operands of one element.
struct Given {
  double x[3], e[3]; ///< values and bounds
  const FloatFormat *from;
};
using BoundOf = double (*)(const Given &given, double result, const FloatFormat &format);

/// What an error grows to when what it is added to is rounded on either side.
double rounded(double error, double result, const FloatFormat &format) {
  if (error == 0)
    return 0;
  const double reach = std::fabs(result) + error;
  if (!(reach < format.decode(format.largest())))
    return anything;
  return error + 2 * format.halfUlp(reach);
}

double ofSum(const Given &g, double result, const FloatFormat &format) {
  return rounded(g.e[0] + g.e[1], result, format);
}

double productError(const Given &g) {
  // An error may be the sign of a zero alone, which is in the product, too.
  const double least = g.e[0] > 0 || g.e[1] > 0 ? std::numeric_limits<double>::denorm_min() : 0;
  return std::max(least, std::fabs(g.x[0]) * g.e[1] + std::fabs(g.x[1]) * g.e[0] + g.e[0] * g.e[1]);
}

/// A product that is added to something may not be rounded before.
double ofProduct(const Given &g, double result, const FloatFormat &format) {
  if (!std::isfinite(result))
    return g.e[0] == 0 && g.e[1] == 0 ? 0 : anything;
  const double lost = std::fabs(std::fma(g.x[0], g.x[1], -result));
  const double error = productError(g);
  return error == 0 ? lost : rounded(error, result, format);
}

double ofQuotient(const Given &g, double result, const FloatFormat &format) {
  if (g.e[0] == 0 && g.e[1] == 0) // to 32 and 64 bits correctly rounded
    return format.bits >= 32 || !std::isfinite(result) ? 0 : 2 * format.halfUlp(result);
  const double least = std::fabs(g.x[1]) - g.e[1];
  if (!(least > 0) || !std::isfinite(result))
    return anything;
  return rounded((g.e[0] + std::fabs(result) * g.e[1]) / least, result, format);
}

double ofRemainder(const Given &g, double result, const FloatFormat &format) {
  if (g.e[0] != 0 || g.e[1] != 0)
    return anything;
  if (std::isnan(result) || !std::isfinite(g.x[1]))
    return 0;
  // By way of the quotient: one that is rounded to a whole number is off by one.
  const double quotient = std::fabs(g.x[0] / g.x[1]), whole = std::nearbyint(quotient);
  const double unit = 8 * format.halfUlp(1);
  if (whole != 0 && std::fabs(quotient - whole) <= unit * quotient && quotient != whole)
    return anything;
  return quotient < 1 ? 0 : std::fabs(g.x[0]) * unit;
}

double ofExtremum(const Given &g, double result, const FloatFormat &) {
  // Either zero may be the smaller one.
  if (g.x[0] == 0 && g.x[1] == 0 && std::signbit(g.x[0]) != std::signbit(g.x[1]) && result == 0)
    return std::numeric_limits<double>::denorm_min();
  return std::max(g.e[0], g.e[1]);
}

/// One of 16 bits may be rounded to 32 bits before.
double ofFma(const Given &g, double result, const FloatFormat &format) {
  const double error = productError(g) + g.e[2];
  if (error != 0 || format.bits >= 32)
    return rounded(error, result, format);
  const double sum = multiplyAddToOdd(g.x[0], g.x[1], g.x[2]);
  const double twice = format.decode(format.encode(f32Format.decode(f32Format.encode(sum))));
  return twice == result || std::isnan(twice) ? 0 : std::fabs(twice - result);
}

double unchanged(const Given &g, double, const FloatFormat &) { return g.e[0]; }

/// A conversion between floats.
double ofCast(const Given &g, double result, const FloatFormat &format) {
  return rounded(g.e[0], result, format);
}

template <auto f> double ofRounding(const Given &g, double, const FloatFormat &) {
  if (g.e[0] == 0)
    return 0;
  return std::max(f(g.x[0] + g.e[0]) - f(g.x[0]), f(g.x[0]) - f(g.x[0] - g.e[0]));
}

/// A function that rises or falls between x - e and x + e, and is off by some ulp by itself.
template <auto f, int ulps>
double ofFunction(const Given &g, double result, const FloatFormat &format) {
  if (std::isnan(result) || std::isinf(result)) {
    const bool certain = g.e[0] == 0 || std::isnan(g.x[0]);
    // What is close to infinity may be, or not.
    return certain && (!std::isfinite(g.x[0]) || g.x[0] <= 0) ? 0 : anything;
  }
  double error = 0;
  if (g.e[0] != 0) {
    const double low = f(g.x[0] - g.e[0]), high = f(g.x[0] + g.e[0]);
    error = std::max(std::fabs(low - result), std::fabs(high - result));
    if (std::isnan(low) || std::isnan(high))
      return anything;
  }
  // Subnormal numbers may be flushed to zero.
  const double own = ulps ? ulps * 2 * format.halfUlp(result) + 4 * 0x1p-126 : 0;
  const double total = error + own;
  return std::fabs(result) + total < format.decode(format.largest()) ? total : anything;
}

/// Sine and cosine change by no more than their argument does.
double ofWave(const Given &g, double result, const FloatFormat &format) {
  if (std::isnan(result))
    return g.e[0] == 0 ? 0 : anything;
  const double reach = std::fabs(g.x[0]) + g.e[0];
  if (reach > 0x1p30)
    return 2;
  // Close to a root what counts is the argument's reduction.
  const double reduction = reach > 48039 ? 2e-6 : 1e-9, change = std::min(2.0, g.e[0] + reduction);
  return std::min(2.0, change + 8 * format.halfUlp(std::fabs(result) + change));
}

/// Of operands that are certain, a function that is off by some ulp.
template <int ulps> double ofCertain(const Given &g, double result, const FloatFormat &format) {
  if (g.e[0] != 0 || g.e[1] != 0)
    return anything;
  if (std::isnan(result))
    return 0;
  if (std::isinf(result)) // at a pole, or too large to say
    return g.x[0] == 0 || std::isinf(g.x[0]) || std::isinf(g.x[1]) ? 0 : anything;
  const double own = ulps * 2 * format.halfUlp(result) + 4 * 0x1p-126;
  return std::fabs(result) + own < format.decode(format.largest()) ? own : anything;
}

double ofUnknown(const Given &, double, const FloatFormat &) { return anything; }

const llvm::StringMap<BoundOf> &floatBounds() {
  static const llvm::StringMap<BoundOf> table = [] {
    llvm::StringMap<BoundOf> t;
    t["arith.addf"] = t["arith.subf"] = ofSum;
    t["arith.mulf"] = ofProduct;
    t["arith.divf"] = ofQuotient;
    t["arith.remf"] = ofRemainder;
    t["arith.minimumf"] = t["arith.maximumf"] = ofExtremum;
    t["tile.minimum_number"] = t["tile.maximum_number"] = ofExtremum;
    t["arith.negf"] = t["math.absf"] = unchanged;
    t["arith.extf"] = t["arith.truncf"] = t["tile.fp_cast"] = ofCast;
    t["math.fma"] = ofFma;
    t["math.floor"] = ofRounding<[](double x) { return std::floor(x); }>;
    t["math.ceil"] = ofRounding<[](double x) { return std::ceil(x); }>;
    t["math.trunc"] = ofRounding<[](double x) { return std::trunc(x); }>;
    t["math.round"] = ofRounding<[](double x) { return std::round(x); }>;
    t["math.roundeven"] = ofRounding<[](double x) { return std::nearbyint(x); }>;
    t["math.exp"] = ofFunction<[](double x) { return std::exp(x); }, 4>;
    t["math.exp2"] = ofFunction<[](double x) { return std::exp2(x); }, 2>;
    t["math.expm1"] = ofFunction<[](double x) { return std::expm1(x); }, 4>;
    t["math.log"] = ofFunction<[](double x) { return std::log(x); }, 4>;
    t["math.log2"] = ofFunction<[](double x) { return std::log2(x); }, 4>;
    t["math.log10"] = ofFunction<[](double x) { return std::log10(x); }, 4>;
    t["math.log1p"] = ofFunction<[](double x) { return std::log1p(x); }, 4>;
    t["math.sqrt"] = ofFunction<[](double x) { return std::sqrt(x); }, 0>;
    t["math.rsqrt"] = ofFunction<[](double x) { return 1 / std::sqrt(x); }, 2>;
    t["math.tanh"] = ofFunction<[](double x) { return std::tanh(x); }, 4>;
    t["math.erf"] = ofFunction<[](double x) { return std::erf(x); }, 8>;
    t["math.sin"] = t["math.cos"] = ofWave;
    t["math.atan2"] = t["math.atan"] = t["math.asin"] = t["math.acos"] = ofCertain<3>;
    t["math.asinh"] = t["math.acosh"] = t["math.atanh"] = t["math.powf"] = ofCertain<4>;
    t["math.sinh"] = t["math.cosh"] = ofCertain<6>;
    t["math.cbrt"] = ofCertain<2>;
    t["math.copysign"] = ofCertain<0>;
    return t;
  }();
  return table;
}

/// Whether a product's result goes where it cannot be contracted with a sum.
bool staysRounded(Operation &op) {
  return op.getName().getStringRef() == "arith.mulf" &&
         llvm::all_of(op.getUsers(), [](Operation *user) {
           StringRef name = user->getName().getStringRef();
           return name == "tile.store" || name == "tile.store_block" || name == "arith.cmpf" ||
                  name == "arith.mulf" || name == "arith.divf" || name == "tile.print";
         });
}

void boundFloats(Run &run, Operation &op, BoundOf boundOf) {
  Elements &result = run.amend(op.getResult(0));
  const bool exactProduct = staysRounded(op);
  SmallVector<const Elements *, 3> operands;
  for (Value operand : op.getOperands())
    operands.push_back(&run.get(operand));
  for (size_t i = 0; i < result.size(); ++i) {
    Given given{};
    bool open = false;
    for (auto [o, operand] : llvm::enumerate(operands)) {
      const size_t at = operand->shape.empty() ? 0 : i;
      given.x[o] = operand->asDouble(at);
      given.e[o] = operand->boundAt(at);
      open |= given.e[o] == anything;
    }
    given.from = operands[0]->type.format;
    const double value = result.asDouble(i);
    if (open) {
      setBound(result, i, anything);
    } else if (exactProduct && given.e[0] == 0 && given.e[1] == 0) {
      continue;
    } else {
      double bound = boundOf(given, value, *result.type.format);
      const bool exact = given.e[0] == 0 && given.e[1] == 0 && given.e[2] == 0;
      if (!std::isfinite(value) && !exact)
        bound = anything;
      setBound(result, i, bound);
    }
  }
}

bool anyBounds(Run &run, Operation &op) {
  return llvm::any_of(op.getOperands(),
                      [&](Value operand) { return !run.get(operand).bounds.empty(); });
}

void boundComparison(Run &run, Operation &op) {
  Elements &result = run.amend(op.getResult(0));
  const Elements &a = run.get(op.getOperand(0)), &b = run.get(op.getOperand(1));
  for (size_t i = 0; i < result.size(); ++i) {
    const size_t ia = a.shape.empty() ? 0 : i, ib = b.shape.empty() ? 0 : i;
    const double error = a.boundAt(ia) + b.boundAt(ib);
    if (error == 0)
      continue;
    if (!(std::fabs(a.asDouble(ia) - b.asDouble(ib)) > error))
      setBound(result, i, anything);
  }
}

/// A number that is not certain makes an integer anything, unless what it meets decides alone.
void boundIntegers(Run &run, Operation &op) {
  const bool isAnd = isa<arith::AndIOp>(op), isOr = isa<arith::OrIOp>(op);
  const bool isShift = isa<arith::ShLIOp, arith::ShRSIOp, arith::ShRUIOp>(op);
  if (!isShift && !anyBounds(run, op))
    return;
  for (Value value : op.getResults()) {
    Elements &result = run.amend(value);
    for (size_t i = 0; i < result.size(); ++i) {
      bool open = false, decided = false;
      for (Value operand : op.getOperands()) {
        const Elements &given = run.get(operand);
        const size_t at = given.shape.empty() ? 0 : i;
        const bool certain = given.boundAt(at) == 0;
        open |= !certain;
        decided |=
            certain && ((isAnd && given[at] == 0) || (isOr && given[at] == given.type.mask()));
      }
      if (isShift) { // by the width or more: undefined
        const Elements &by = run.get(op.getOperand(1));
        open |= by[by.shape.empty() ? 0 : i] >= result.type.bits;
      }
      if (open && !decided)
        setBound(result, i, anything);
    }
  }
}

void boundSelect(Run &run, Operation &op) {
  Elements &result = run.amend(op.getResult(0));
  const Elements &condition = run.get(op.getOperand(0)), &a = run.get(op.getOperand(1)),
                 &b = run.get(op.getOperand(2));
  for (size_t i = 0; i < result.size(); ++i) {
    const size_t ic = condition.shape.empty() ? 0 : i, ia = a.shape.empty() ? 0 : i,
                 ib = b.shape.empty() ? 0 : i;
    if (condition.boundAt(ic) == 0)
      setBound(result, i, condition[ic] ? a.boundAt(ia) : b.boundAt(ib));
    else if (a[ia] != b[ib] || a.boundAt(ia) != 0 || b.boundAt(ib) != 0)
      setBound(result, i, anything);
  }
}

void boundToInteger(Run &run, Operation &op) {
  Elements &result = run.amend(op.getResult(0));
  const Elements &from = run.get(op.getOperand(0));
  const double limit = std::ldexp(1.0, int(result.type.bits) - (isa<arith::FPToSIOp>(op) ? 1 : 0)),
               lowest = isa<arith::FPToSIOp>(op) ? -limit : 0;
  for (size_t i = 0; i < result.size(); ++i) {
    const double low = std::trunc(from.asDouble(i) - from.boundAt(i)),
                 high = std::trunc(from.asDouble(i) + from.boundAt(i));
    if (!(low == high && low >= lowest && high < limit))
      setBound(result, i, anything);
  }
}

void boundBitcast(Run &run, Operation &op) {
  Elements &result = run.amend(op.getResult(0));
  const Elements &from = run.get(op.getOperand(0));
  for (size_t i = 0; i < result.size(); ++i)
    // Which NaN a NaN is, nobody says.
    if (from.boundAt(i) != 0 || (from.type.format && from.type.format->isNan(from[i])))
      setBound(result, i, anything);
}

} // namespace

void addBounds(Run &run, Operation &op) {
  // These know what their elements become.
  if (op.getNumRegions() ||
      isa<tile::SplatOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp, tile::PermuteOp,
          tile::JoinOp, tile::SplitOp, tile::GatherOp, tile::LoadOp, tile::LoadBlockOp, tile::DotOp,
          tile::DotScaledOp, tile::HintOp, tile::AtomicRMWOp, tile::AtomicCasOp,
          tile::AtomicBlockOp, tile::StoreOp, tile::StoreBlockOp, tile::ChannelOp, tile::AcquireOp,
          tile::WaitOp, tile::ReadSlotOp, tile::DotWaitOp>(op) ||
      op.getName().getStringRef() == "func.call" || op.getNumResults() == 0)
    return;
  auto found = floatBounds().find(op.getName().getStringRef());
  if (found != floatBounds().end())
    return boundFloats(run, op, found->second);
  if (isa<arith::CmpFOp>(op))
    return boundComparison(run, op);
  if (isa<arith::SelectOp>(op))
    return boundSelect(run, op);
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op))
    return boundToInteger(run, op);
  if (isa<arith::BitcastOp>(op))
    return boundBitcast(run, op);
  if (isa<tile::HistogramOp, tile::MakeViewOp>(op)) {
    for (Value operand : op.getOperands())
      if (!isa<FloatType>(tile::elementType(operand.getType()))) // weights, which it has summed
        run.requireCertain(op, operand);
    return;
  }
  auto isFloat = [](Type type) { return isa<FloatType>(tile::elementType(type)); };
  if (llvm::any_of(op.getOperandTypes(), isFloat) && llvm::any_of(op.getResultTypes(), isFloat))
    return boundFloats(run, op, ofUnknown);
  boundIntegers(run, op);
}

} // namespace sectile::interpreter
