// Random arithmetic, element by element.
#include "mlir/Dialect/Math/IR/Math.h"
#include "tests/fuzz/programs/Generator.h"

using namespace mlir;

namespace sectile::fuzz {

/// Numbers of i32 cut to so many bits, centred at zero, as another type.
Value Generator::whole(Value tile, int64_t bits, Type element) {
  ArrayRef<int64_t> shape = shapeOf(tile);
  Value cut = op<arith::AndIOp>(tile, constant(shape, i32(), (1 << bits) - 1));
  cut = op<arith::SubIOp>(cut, constant(shape, i32(), 1 << (bits - 1)));
  if (element == i32())
    return cut;
  if (element.isInteger(8))
    return op<arith::TruncIOp>(tileOf(shape, element), cut);
  if (!isSmallFloat(element))
    return op<arith::SIToFPOp>(tileOf(shape, element), cut);
  cut = op<arith::SIToFPOp>(tileOf(shape, builder.getF32Type()), cut);
  return cast(cut, element);
}

//===-- Conversions ---------------------------------------------------------------------------===//

/// What does not fit is undefined, so it is cut before; NaN becomes the largest.
Value Generator::floatToInteger(Value tile, Type element) {
  unsigned bits = element.getIntOrFloatBitWidth();
  bool isUnsigned = pick(3) == 0;
  double most = bits == 8 ? 100 : bits == 16 || elementOf(tile).isF16() ? 30000 : 1 << 20;
  auto limit = [&](double value) { return constant(shapeOf(tile), elementOf(tile), value); };
  tile = op<tile::MinimumNumberOp>(tile, limit(most));
  tile = op<tile::MaximumNumberOp>(tile, limit(isUnsigned ? 0 : -most));
  Type type = tile::withElementType(tile.getType(), element);
  return isUnsigned ? op<arith::FPToUIOp>(type, tile) : op<arith::FPToSIOp>(type, tile);
}

Value Generator::cast(Value tile, Type to) {
  Type from = elementOf(tile), type = tile::withElementType(tile.getType(), to);
  if (from == to)
    return tile;
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
  Type f32 = builder.getF32Type();
  // Truncations to fp8 are spelled so that they say what becomes of large numbers.
  if (isa<FloatType>(from) && isa<FloatType>(to) && (isSmallFloat(to) || pick(6) == 0)) {
    auto rounding = coin() ? tile::Rounding::NearestEven : tile::Rounding::TowardZero;
    return op<tile::FpCastOp>(type, tile, rounding, /*saturate=*/coin());
  }
  // fp8 has a way to f32 only.
  if ((isSmallFloat(from) && to != f32) || isSmallFloat(to))
    return cast(cast(tile, f32), to);
  if (isa<FloatType>(from) && isa<FloatType>(to)) {
    if (fromBits == toBits)
      return cast(cast(tile, f32), to);
    return fromBits < toBits ? op<arith::ExtFOp>(type, tile) : op<arith::TruncFOp>(type, tile);
  }
  if (isa<FloatType>(from)) {
    if (to.isInteger(1))
      return cast(floatToInteger(tile, i32()), to);
    return floatToInteger(tile, to);
  }
  if (isa<FloatType>(to))
    return from.isInteger(1) || pick(3) == 0 ? op<arith::UIToFPOp>(type, tile)
                                             : op<arith::SIToFPOp>(type, tile);
  if (to.isInteger(1)) {
    Value zero = constant(shapeOf(tile), from, 0);
    return op<arith::CmpIOp>(arith::CmpIPredicate::ne, tile, zero);
  }
  if (fromBits > toBits)
    return op<arith::TruncIOp>(type, tile);
  return from.isInteger(1) || coin() ? op<arith::ExtUIOp>(type, tile)
                                     : op<arith::ExtSIOp>(type, tile);
}

//===-- Arithmetic ----------------------------------------------------------------------------===//

Value Generator::compare(Value a, Value b) {
  Type element = elementOf(a);
  if (isSmallFloat(element)) {
    a = cast(a, builder.getF32Type());
    b = cast(b, builder.getF32Type());
  } else if (!isa<FloatType>(element)) {
    auto predicate = static_cast<arith::CmpIPredicate>(pick(10));
    return op<arith::CmpIOp>(predicate, a, b);
  }
  using enum arith::CmpFPredicate;
  static constexpr arith::CmpFPredicate predicates[] = {OEQ, OGT, OGE, OLT, OLE, ONE,
                                                        UNE, ORD, UNO, UEQ, UGT, ULE};
  return op<arith::CmpFOp>(oneOf(predicates), a, b);
}

Value Generator::combineIntegers(Value a, Value b) {
  ArrayRef<int64_t> shape = shapeOf(a);
  Type element = elementOf(a);
  unsigned bits = element.getIntOrFloatBitWidth();
  auto lowBits = [&](Value x, int64_t mask) -> Value {
    return op<arith::AndIOp>(x, constant(shape, element, mask));
  };
  if (bits == 1) {
    switch (pick(3)) {
    case 0:
      return op<arith::AndIOp>(a, b);
    case 1:
      return op<arith::OrIOp>(a, b);
    default:
      return op<arith::XOrIOp>(a, b);
    }
  }
  switch (pick(18)) {
  case 13: {
    // The high half of a product.
    Type type = a.getType();
    if (bits < 32)
      return op<arith::MulIOp>(a, b);
    if (coin())
      return arith::MulSIExtendedOp::create(builder, loc, type, type, a, b).getHigh();
    return arith::MulUIExtendedOp::create(builder, loc, type, type, a, b).getHigh();
  }
  case 0:
    return op<arith::AddIOp>(a, b);
  case 1:
    return op<arith::SubIOp>(a, b);
  case 2:
    return op<arith::MulIOp>(a, b);
  case 3:
    return op<arith::AndIOp>(a, b);
  case 4:
    return op<arith::OrIOp>(a, b);
  case 5:
    return op<arith::XOrIOp>(a, b);
  case 6:
    return op<arith::ShLIOp>(a, lowBits(b, bits - 1));
  case 7:
    return op<arith::ShRSIOp>(a, lowBits(b, bits - 1));
  case 8:
    return op<arith::ShRUIOp>(a, lowBits(b, bits - 1));
  case 9:
    return op<arith::MinSIOp>(a, b);
  case 10:
    return op<arith::MaxSIOp>(a, b);
  case 11:
    return op<arith::MinUIOp>(a, b);
  case 12:
    return op<arith::MaxUIOp>(a, b);
  default: {
    // Small odd numbers of both signs: no zero, and often minus one.
    Value high = op<arith::ShRSIOp>(b, constant(shape, element, bits - 4));
    Value divisor = op<arith::OrIOp>(high, constant(shape, element, 1));
    switch (pick(6)) {
    case 4:
      return op<arith::FloorDivSIOp>(a, divisor);
    case 5:
      return op<arith::CeilDivSIOp>(a, divisor);
    case 0:
      return op<arith::DivSIOp>(a, divisor);
    case 1:
      return op<arith::RemSIOp>(a, divisor);
    case 2:
      return op<arith::DivUIOp>(a, divisor);
    default:
      return op<arith::RemUIOp>(a, divisor);
    }
  }
  }
}

Value Generator::combineFloats(Value a, Value b) {
  switch (pick(options.exact ? 7 : 11)) {
  case 0:
    return op<arith::AddFOp>(a, b);
  case 1:
    return op<arith::SubFOp>(a, b);
  case 2:
    return op<arith::DivFOp>(a, b);
  case 3:
    return op<tile::MinimumNumberOp>(a, b);
  case 4:
    return op<tile::MaximumNumberOp>(a, b);
  case 5:
    return op<arith::MinimumFOp>(a, b);
  case 6:
    return op<arith::MaximumFOp>(a, b);
  case 10:
    return op<arith::RemFOp>(a, b);
  case 7:
    return op<math::FmaOp>(a, b, someTileOf(shapeOf(a), elementOf(a)));
  default:
    return op<arith::MulFOp>(a, b);
  }
}

Value Generator::combine(Value a, Value b) {
  if (pick(8) == 0) {
    Value mask = someMask(shapeOf(a));
    return op<arith::SelectOp>(mask, a, b);
  }
  Type element = elementOf(a);
  if (isSmallFloat(element)) {
    Type wide = coin() ? builder.getF32Type() : builder.getF16Type();
    a = cast(a, wide);
    b = cast(b, wide);
    return cast(combineFloats(a, b), element);
  }
  return isa<FloatType>(element) ? combineFloats(a, b) : combineIntegers(a, b);
}

/// A function of one tile.
Value Generator::change(Value tile) {
  Type element = elementOf(tile);
  unsigned bits = element.getIntOrFloatBitWidth();
  if (bits > 1 && pick(6) == 0) {
    SmallVector<Type> others;
    for (Type other : elements)
      if (other != element && other.getIntOrFloatBitWidth() == bits)
        others.push_back(other);
    Type other = oneOf(others);
    return op<arith::BitcastOp>(tile::withElementType(tile.getType(), other), tile);
  }
  if (isSmallFloat(element))
    return cast(change(cast(tile, builder.getF32Type())), element);
  if (!isa<FloatType>(element)) {
    switch (bits < 32 ? 0 : pick(4)) {
    case 1:
      return op<math::CtPopOp>(tile);
    case 2:
      return op<math::CountLeadingZerosOp>(tile);
    case 3:
      return op<math::AbsIOp>(tile);
    default: {
      Value all = constant(shapeOf(tile), element, -1);
      return op<arith::XOrIOp>(tile, all);
    }
    }
  }
  switch (pick(options.exact ? 8 : 20)) {
  case 0:
    return op<arith::NegFOp>(tile);
  case 1:
    return op<math::AbsFOp>(tile);
  case 2:
    return op<math::FloorOp>(tile);
  case 3:
    return op<math::CeilOp>(tile);
  case 4:
    return op<math::RoundEvenOp>(tile);
  case 5:
    return op<math::SqrtOp>(tile);
  case 6:
    return op<math::RoundOp>(tile);
  case 7:
    return op<math::TruncOp>(tile);
  case 8:
    return op<math::ExpOp>(tile);
  case 9:
    return op<math::Exp2Op>(tile);
  case 10:
    return op<math::LogOp>(tile);
  case 11:
    return op<math::TanhOp>(tile);
  case 12:
    return op<math::RsqrtOp>(tile);
  case 13:
    return op<math::ErfOp>(tile);
  case 14:
    return op<math::SinOp>(tile);
  case 15:
    return op<math::CosOp>(tile);
  case 16:
    return op<math::Log2Op>(tile);
  case 17:
    return op<math::Log10Op>(tile);
  case 18:
    return op<math::Log1pOp>(tile);
  default:
    return op<math::ExpM1Op>(tile);
  }
}

} // namespace sectile::fuzz
