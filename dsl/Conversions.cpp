// Kinds of elements: their MLIR types, literals that take them, conversions between them.
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <cmath>

using namespace mlir;

namespace sectile::detail {

std::string_view nameOf(Kind kind) {
  return kind == Kind::index ? std::string_view("Int") : name_of(static_cast<DType>(kind));
}

std::string describe(mlir::Location location) {
  if (auto file = location->findInstanceOf<FileLineColLoc>())
    return (file.getFilename().getValue() + ":" + Twine(file.getLine())).str();
  return "an unknown place";
}

std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (auto [i, extent] : llvm::enumerate(shape))
    text += (i ? ", " : "") + std::to_string(extent);
  return text + "]";
}

std::string typeText(Kind kind, mlir::Type type) {
  std::string name(nameOf(kind));
  if (!isa<RankedTensorType>(type))
    return name + " number";
  return name + " tile of " + shapeText(tile::shapeOf(type));
}

mlir::Type elementTypeOf(Trace &trace, Kind kind) {
  OpBuilder &builder = trace.builder;
  switch (kind) {
  case Kind::boolean:
    return builder.getI1Type();
  case Kind::float8_e4m3:
    return Float8E4M3FNType::get(builder.getContext());
  case Kind::float8_e5m2:
    return Float8E5M2Type::get(builder.getContext());
  case Kind::float8_e4m3fnuz:
    return Float8E4M3FNUZType::get(builder.getContext());
  case Kind::float8_e5m2fnuz:
    return Float8E5M2FNUZType::get(builder.getContext());
  case Kind::float8_e4m3b11fnuz:
    return Float8E4M3B11FNUZType::get(builder.getContext());
  case Kind::float16:
    return builder.getF16Type();
  case Kind::bfloat16:
    return builder.getBF16Type();
  case Kind::float32:
    return builder.getF32Type();
  case Kind::float64:
    return builder.getF64Type();
  case Kind::index:
    return builder.getIntegerType(trace.indexWidth);
  default:
    return builder.getIntegerType(bitsOf(kind));
  }
}

mlir::Type tensorOrScalar(ArrayRef<int64_t> shape, mlir::Type element) {
  return shape.empty() ? element : RankedTensorType::get(shape, element);
}

//===-- Literals
//----------------------------------------------------------------------------------===//

static std::string literalText(const Literal &literal) {
  switch (literal.type) {
  case Literal::Type::boolean:
    return literal.integer ? "true" : "false";
  case Literal::Type::integer:
    return std::to_string(literal.integer);
  case Literal::Type::natural:
    return std::to_string(literal.natural);
  case Literal::Type::floating:
    break;
  }
  SmallVector<char> text;
  APFloat(literal.floating).toString(text, /*FormatPrecision=*/7);
  return std::string(text.begin(), text.end());
}

static TypedAttr floatLiteral(const Literal &literal, Kind kind, FloatType type, Location where) {
  double number = literal.type == Literal::Type::floating  ? literal.floating
                  : literal.type == Literal::Type::natural ? static_cast<double>(literal.natural)
                                                           : static_cast<double>(literal.integer);
  APFloat value(number);
  bool lossy;
  value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
  // A NaN from a number is how a format without infinity overflows.
  if ((value.isInfinity() || value.isNaN()) && !(std::isnan(number)) &&
      !(value.isInfinity() && std::isinf(number)))
    fail(
        where, literalText(literal) + " does not fit into " + std::string(nameOf(kind)) +
                   ": its largest number is " + [&] {
                     SmallVector<char> text;
                     APFloat::getLargest(type.getFloatSemantics()).toString(text, 6);
                     return std::string(text.begin(), text.end());
                   }());
  return FloatAttr::get(type, value);
}

TypedAttr literalAttr(const Literal &literal, Kind kind, mlir::Type element, Location where) {
  std::string name(nameOf(kind));
  if (auto type = dyn_cast<FloatType>(element))
    return floatLiteral(literal, kind, type, where);
  if (literal.type == Literal::Type::floating) {
    const bool isWhole =
        literal.floating == std::trunc(literal.floating) && std::fabs(literal.floating) < 1e6;
    fail(where, literalText(literal) + (isWhole ? ".0 is a float" : " is not an integer") +
                    ", but the tile is " + name +
                    ": convert the tile first, as in sc::cast<float>(x)");
  }
  bool natural = literal.type == Literal::Type::natural && literal.integer < 0; // beyond int64
  unsigned bits = element.getIntOrFloatBitWidth();
  bool fits;
  std::string range;
  if (isBool(kind)) {
    fits = !natural && (literal.integer == 0 || literal.integer == 1);
    range = "true or false";
  } else if (isUnsigned(kind)) {
    uint64_t largest = APInt::getMaxValue(bits).getZExtValue();
    fits = literal.type == Literal::Type::natural
               ? literal.natural <= largest
               : literal.integer >= 0 && literal.natural <= largest;
    range = "0 to " + std::to_string(largest);
  } else {
    int64_t largest = APInt::getSignedMaxValue(bits).getSExtValue();
    int64_t smallest = APInt::getSignedMinValue(bits).getSExtValue();
    fits = !natural && literal.integer >= smallest && literal.integer <= largest;
    range = std::to_string(smallest) + " to " + std::to_string(largest);
  }
  if (!fits)
    fail(where, literalText(literal) + " does not fit into " + name + " (" + range +
                    "): a number takes the type of the tile it is used with");
  return IntegerAttr::get(element,
                          APInt(bits, literal.natural, /*isSigned=*/false, /*implicitTrunc=*/true));
}

mlir::Value constantOf(Trace &trace, mlir::Location loc, mlir::Type type, int64_t value) {
  mlir::Type element = getElementTypeOrSelf(type);
  TypedAttr attr = isa<FloatType>(element)
                       ? TypedAttr(FloatAttr::get(element, static_cast<double>(value)))
                       : TypedAttr(IntegerAttr::get(
                             element, APInt(element.getIntOrFloatBitWidth(), value, true, true)));
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    attr = SplatElementsAttr::get(tensor, Attribute(attr));
  return arith::ConstantOp::create(trace.builder, loc, attr);
}

Value constant(Kind kind, Literal literal, Location where) {
  Trace &trace = Trace::current(where);
  Operand operand(0, where);
  operand.literal = literal;
  return trace.wrap(materialize(trace, operand, kind));
}

/// An Index literal beyond 32 bits is a 64-bit index.
static mlir::Type literalType(Trace &trace, const Literal &literal, Kind kind) {
  if (kind == Kind::index && literal.type != Literal::Type::floating &&
      (literal.integer > INT32_MAX || literal.integer < INT32_MIN))
    return trace.builder.getI64Type();
  return elementTypeOf(trace, kind);
}

mlir::Value materialize(Trace &trace, const Operand &operand, Kind kind) {
  if (operand.value)
    return trace.get(*operand.value, operand.where);
  mlir::Type element = literalType(trace, operand.literal, kind);
  return arith::ConstantOp::create(trace.builder, trace.location(operand.where),
                                   literalAttr(operand.literal, kind, element, operand.where));
}

//===-- Conversions
//-------------------------------------------------------------------------------===//

Kind commonKind(ArrayRef<const Operand *> operands) {
  std::optional<Kind> kind;
  for (const Operand *operand : operands)
    if (operand->value)
      kind = kind ? promote(*kind, operand->kind) : operand->kind;
  return kind.value_or(Kind::index);
}

mlir::Type commonElement(Trace &trace, Kind kind, ArrayRef<const Operand *> operands) {
  if (kind != Kind::index)
    return elementTypeOf(trace, kind);
  unsigned width = trace.indexWidth;
  for (const Operand *operand : operands) {
    mlir::Type type =
        operand->value ? getElementTypeOrSelf(trace.get(*operand->value, operand->where).getType())
                       : literalType(trace, operand->literal, kind);
    width = std::max(width, type.getIntOrFloatBitWidth());
  }
  return trace.builder.getIntegerType(width);
}

/// To a float of fewer bits. Those of 8 bits saturate, which upstream's truncation does not where
/// it folds constants.
static mlir::Value narrowed(OpBuilder &builder, mlir::Location loc, mlir::Type type,
                            mlir::Value value) {
  if (getElementTypeOrSelf(type).getIntOrFloatBitWidth() > 8)
    return builder.createOrFold<arith::TruncFOp>(loc, type, value);
  return tile::FpCastOp::create(builder, loc, type, value, tile::Rounding::NearestEven,
                                /*saturate=*/true);
}

mlir::Value convert(Trace &trace, mlir::Location loc, mlir::Value value, Kind from, Kind to,
                    mlir::Type toElement) {
  OpBuilder &builder = trace.builder;
  mlir::Type type = tile::withElementType(value.getType(), toElement);
  mlir::Type fromElement = getElementTypeOrSelf(value.getType());
  unsigned fromBits = fromElement.getIntOrFloatBitWidth();
  unsigned toBits = toElement.getIntOrFloatBitWidth();
  if (isBool(to)) {
    if (isBool(from))
      return value;
    if (isFloat(from) && fromBits == 8) // there is no comparison of fp8
      value = arith::ExtFOp::create(
          builder, loc, tile::withElementType(value.getType(), builder.getF32Type()), value);
    mlir::Value zero = constantOf(trace, loc, value.getType(), 0);
    if (isFloat(from))
      return builder.createOrFold<arith::CmpFOp>(loc, arith::CmpFPredicate::UNE, value, zero);
    return builder.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::ne, value, zero);
  }
  if (fromElement == toElement)
    return value;
  if (isFloat(from) && isFloat(to)) {
    if (fromBits == toBits) { // of two formats of one size neither holds the other
      mlir::Type middle = tile::withElementType(type, builder.getF32Type());
      value = arith::ExtFOp::create(builder, loc, middle, value);
      return narrowed(builder, loc, type, value);
    }
    if (toBits > fromBits)
      return builder.createOrFold<arith::ExtFOp>(loc, type, value);
    return narrowed(builder, loc, type, value);
  }
  if (isFloat(from)) {
    if (fromBits == 8)
      value = arith::ExtFOp::create(builder, loc, tile::withElementType(type, builder.getF32Type()),
                                    value);
    if (isUnsigned(to))
      return builder.createOrFold<arith::FPToUIOp>(loc, type, value);
    return builder.createOrFold<arith::FPToSIOp>(loc, type, value);
  }
  if (isFloat(to)) {
    mlir::Type result = type;
    if (toBits == 8)
      type = tile::withElementType(type, builder.getF32Type());
    if (isUnsigned(from) || isBool(from))
      value = builder.createOrFold<arith::UIToFPOp>(loc, type, value);
    else
      value = builder.createOrFold<arith::SIToFPOp>(loc, type, value);
    return type == result ? value : narrowed(builder, loc, result, value);
  }
  if (toBits < fromBits)
    return builder.createOrFold<arith::TruncIOp>(loc, type, value);
  if (toBits == fromBits)
    return value;
  if (isUnsigned(from) || isBool(from))
    return builder.createOrFold<arith::ExtUIOp>(loc, type, value);
  return builder.createOrFold<arith::ExtSIOp>(loc, type, value);
}

Value cast(Kind from, Kind to, const Value &value, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Value source = trace.get(value, where);
  mlir::Type element = elementTypeOf(trace, to);
  if (to == Kind::index) // as wide as it has to be
    element = trace.builder.getIntegerType(
        std::max(trace.indexWidth, isFloat(from) ? 32u : std::max(32u, bitsOf(from))));
  return trace.wrap(convert(trace, trace.location(where), source, from, to, element));
}

mlir::Value scalarIndex(Trace &trace, const Operand &operand, StringRef what) {
  if (operand.value && !isInteger(operand.kind))
    fail(operand.where, what + " is an integer, not " + Twine(std::string(nameOf(operand.kind))));
  mlir::Value value = materialize(trace, operand, Kind::index);
  if (isa<RankedTensorType>(value.getType()))
    fail(operand.where,
         what + " is one number, not a tile of " + shapeText(tile::shapeOf(value.getType())));
  Kind kind = operand.value ? operand.kind : Kind::index;
  return convert(trace, trace.location(operand.where), value, kind, Kind::index,
                 commonElement(trace, Kind::index, &operand));
}

Value index(const Operand &operand) {
  Trace &trace = Trace::current(operand.where);
  return trace.wrap(scalarIndex(trace, operand, "an index"));
}

} // namespace sectile::detail
