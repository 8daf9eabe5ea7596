// Conversions between types, choices between values, constants.
#include "ir/tile/Tile.h"
#include "jit/interpreter/Elementwise.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <cmath>

using namespace mlir;

namespace sectile::interpreter {
namespace {

/// f takes an element of the operand and gives the result's bits, or more.
template <class F> void convert(Run &run, Operation &op, F f) {
  Elements result = resultFor(run, op);
  const Elements &from = run.get(op.getOperand(0));
  for (size_t i = 0; i < result.size(); ++i)
    result.words[i] = f(from, i) & result.type.mask();
  run.set(op.getResult(0), std::move(result));
}

/// To wider integers.
template <bool isSigned> void resize(Run &run, Operation &op) {
  Elements result = resultFor(run, op);
  const Elements &from = run.get(op.getOperand(0));
  for (size_t i = 0; i < result.size(); ++i) {
    const uint64_t wide = isSigned ? uint64_t(from.asSigned(i)) : from[i];
    result.words[i] = wide & result.type.mask();
    if (from.wrappedAt(i))
      result.setWrapped(i);
  }
  run.set(op.getResult(0), std::move(result));
}

void truncate(Run &run, Operation &op) {
  Elements result = resultFor(run, op);
  const Elements &from = run.get(op.getOperand(0));
  for (size_t i = 0; i < result.size(); ++i) {
    result.words[i] = from[i] & result.type.mask();
    if (from.wrappedAt(i))
      result.setWrapped(i);
  }
  run.set(op.getResult(0), std::move(result));
}

void floatToFloat(Run &run, Operation &op, Rounding rounding, bool saturate) {
  Elements result = resultFor(run, op);
  const std::vector<double> values = run.get(op.getOperand(0)).asDoubles();
  for (size_t i = 0; i < result.size(); ++i)
    result.words[i] = result.type.format->encode(values[i], rounding, saturate);
  run.set(op.getResult(0), std::move(result));
}

/// Conversions to 8 bits by arith saturate, as the hardware's do.
void castFloat(Run &run, Operation &op) {
  const bool small = ElementType::of(op.getResult(0).getType()).bits == 8;
  auto truncate = dyn_cast<arith::TruncFOp>(op);
  const bool towardZero =
      truncate && truncate.getRoundingmode() == arith::RoundingMode::toward_zero;
  floatToFloat(run, op, towardZero ? Rounding::TowardZero : Rounding::NearestEven, small);
}

void fpCast(Run &run, Operation &op) {
  auto cast = llvm::cast<tile::FpCastOp>(op);
  floatToFloat(run, op,
               cast.getRounding() == tile::Rounding::TowardZero ? Rounding::TowardZero
                                                                : Rounding::NearestEven,
               cast.getSaturate());
}

/// An integer rounded to double is not rounded to odd: numbers of more than 53 bits keep what tells
/// on which side of a tie they are.
double toOdd(uint64_t magnitude) {
  if (magnitude >> 53) {
    const unsigned shift = 11 - unsigned(std::countl_zero(magnitude));
    const uint64_t lost = magnitude & ((uint64_t(1) << shift) - 1);
    magnitude = magnitude >> shift << shift;
    if (lost)
      magnitude |= uint64_t(1) << shift;
  }
  return static_cast<double>(magnitude);
}

template <bool isSigned> void toFloat(Run &run, Operation &op) {
  const FloatFormat &format = *ElementType::of(op.getResult(0).getType()).format;
  convert(run, op, [&](const Elements &from, size_t i) -> uint64_t {
    if (format.bits == 64)
      return format.encode(isSigned ? double(from.asSigned(i)) : double(from[i]));
    const int64_t number = from.asSigned(i);
    const double value = isSigned && number < 0 ? -toOdd(-uint64_t(number)) : toOdd(from[i]);
    return format.encode(value, Rounding::NearestEven, format.bits == 8);
  });
}

/// Toward zero. What does not fit gives the nearest number that does, and NaN zero.
template <bool isSigned> void toInteger(Run &run, Operation &op) {
  const unsigned bits = ElementType::of(op.getResult(0).getType()).bits;
  const double limit = std::ldexp(1.0, int(bits) - (isSigned ? 1 : 0));
  convert(run, op, [&](const Elements &from, size_t i) -> uint64_t {
    const double value = std::trunc(from.asDouble(i));
    if (std::isnan(value))
      return 0;
    if (value >= limit)
      return (~uint64_t(0) >> (64 - bits)) >> (isSigned ? 1 : 0);
    if constexpr (isSigned)
      return value < -limit ? uint64_t(1) << (bits - 1) : uint64_t(static_cast<int64_t>(value));
    return value < 0 ? 0 : static_cast<uint64_t>(value);
  });
}

void sameBits(Run &run, Operation &op) {
  convert(run, op, [](const Elements &from, size_t i) { return from[i]; });
}

void select(Run &run, Operation &op) {
  Elements result = resultFor(run, op);
  const Elements &left = run.get(op.getOperand(1)), &right = run.get(op.getOperand(2));
  const Lanes condition(run.get(op.getOperand(0))), a(left), b(right);
  for (size_t i = 0; i < result.size(); ++i) {
    const Lanes &chosen = condition[i] ? a : b;
    result.words[i] = chosen[i];
    if (chosen.wrapped(i))
      result.setWrapped(i);
  }
  run.set(op.getResult(0), std::move(result));
}

void constant(Run &run, Operation &op) {
  Type type = op.getResult(0).getType();
  TypedAttr value = cast<arith::ConstantOp>(op).getValue();
  Elements result(ElementType::of(type), tile::shapeOf(type));
  auto assign = [&](size_t i, const APInt &bits) { result.words[i] = bits.getZExtValue(); };
  if (auto integer = dyn_cast<IntegerAttr>(value)) {
    assign(0, integer.getValue());
  } else if (auto number = dyn_cast<FloatAttr>(value)) {
    assign(0, number.getValue().bitcastToAPInt());
  } else {
    auto dense = cast<DenseElementsAttr>(value);
    size_t i = 0;
    if (result.type.format)
      for (const APFloat &element : dense.getValues<APFloat>())
        assign(i++, element.bitcastToAPInt());
    else
      for (const APInt &element : dense.getValues<APInt>())
        assign(i++, element);
  }
  run.set(op.getResult(0), std::move(result));
}

} // namespace

void addConversions(Table &table) {
  table["arith.extsi"] = resize<true>;
  table["arith.extui"] = resize<false>;
  table["arith.trunci"] = truncate;
  table["arith.index_cast"] = resize<true>;
  table["arith.index_castui"] = resize<false>;
  table["arith.extf"] = castFloat;
  table["arith.truncf"] = castFloat;
  table["arith.sitofp"] = toFloat<true>;
  table["arith.uitofp"] = toFloat<false>;
  table["arith.fptosi"] = toInteger<true>;
  table["arith.fptoui"] = toInteger<false>;
  table["arith.bitcast"] = sameBits;
  table["arith.select"] = select;
  table["arith.constant"] = constant;
  table["tile.fp_cast"] = fpCast;
  table["tile.ptr_to_int"] = sameBits;
  table["tile.int_to_ptr"] = sameBits;
}

} // namespace sectile::interpreter
