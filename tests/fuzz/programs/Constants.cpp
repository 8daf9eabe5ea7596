// Constants beside the same values from memory: what a compiler folds has to agree with what the
// operations give when the kernel runs.
#include "mlir/Dialect/Math/IR/Math.h"
#include "tests/fuzz/programs/Generator.h"
#include <cmath>

using namespace mlir;

namespace sectile::fuzz {

/// Zeros of both signs, ends of the type, what is no number, and others.
uint64_t Generator::specialBits(Type element) {
  auto type = dyn_cast<FloatType>(element);
  if (!type)
    return element.isInteger(1) ? pick(2) : extremeBits(element);
  const llvm::fltSemantics &semantics = type.getFloatSemantics();
  auto bits = [](const llvm::APFloat &value) { return value.bitcastToAPInt().getZExtValue(); };
  const bool negative = coin();
  static constexpr double plain[] = {1, 2, 0.5, 3, 0.75, 10, 100, 7};
  if (!options.exact)
    switch (pick(10)) {
    case 0:
      if (llvm::APFloat::semanticsHasInf(semantics))
        return bits(llvm::APFloat::getInf(semantics, negative));
      break;
    case 1:
      if (llvm::APFloat::semanticsHasNaN(semantics))
        return bits(llvm::APFloat::getNaN(semantics));
      break;
    case 2:
      return bits(llvm::APFloat::getLargest(semantics, negative));
    case 3:
      return bits(llvm::APFloat::getSmallestNormalized(semantics, negative));
    default:
      break;
    }
  if (pick(3) == 0)
    return negative && !isSmallFloat(element) ? bits(llvm::APFloat::getZero(semantics, true)) : 0;
  return bitsOf(type, negative ? -oneOf(plain) : oneOf(plain));
}

/// A function of one or two numbers that only folding and rare programs have.
Value Generator::rareFunction(Value x, Value y) {
  switch (pick(options.exact ? 1 : 16)) {
  case 0:
    // Which sign a NaN has that an operation gave is nobody's to say; that of one in memory stays.
    if (!isa_and_present<tile::LoadOp, arith::ConstantOp, tile::SplatOp>(y.getDefiningOp()))
      y = op<tile::MaximumNumberOp>(y, constant(shapeOf(y), elementOf(y), -INFINITY));
    return op<math::CopySignOp>(x, y);
  // Not atan2: MLIR folds that of two zeros to NaN, so the language never gives it two. The fuzzer
  // of the language draws it.
  case 1:
  case 2:
  case 3:
  case 4:
  case 5:
    return op<math::PowFOp>(x, y);
  case 6:
    return op<math::AtanOp>(x);
  case 7:
    return op<math::AsinOp>(x);
  case 8:
    return op<math::AcosOp>(x);
  case 9:
    return op<math::SinhOp>(x);
  case 10:
    return op<math::CoshOp>(x);
  case 11:
    return op<math::TanOp>(x);
  case 12:
    return op<math::CbrtOp>(x);
  case 13:
    return op<math::AsinhOp>(x);
  case 14:
    return op<math::AcoshOp>(x);
  default:
    return op<math::AtanhOp>(x);
  }
}

/// A few operations on the tiles that there are.
Value Generator::folded() {
  for (unsigned i = 1 + pick(3); i-- > 0;) {
    Value x = oneOf(tiles), y = someTileOf(shapeOf(x), elementOf(x)), result;
    const bool isFloat = isa<FloatType>(elementOf(x)) && !isSmallFloat(elementOf(x));
    switch (pick(5)) {
    case 0:
      result = change(x);
      break;
    case 1:
      result = isFloat ? rareFunction(x, y) : combine(x, y);
      break;
    case 2:
      result = cast(x, someElement());
      break;
    case 3: {
      Value mask = compare(x, y);
      result = coin() ? mask : op<arith::SelectOp>(mask, x, y);
      break;
    }
    default:
      result = combine(x, y);
    }
    tiles.push_back(result);
  }
  return tiles.back();
}

/// The same operations on constants and on what memory holds.
void Generator::constantsBesideMemory() {
  Type element = pick(3) ? someElement() : coin() ? someFloat() : someInteger();
  const Shape shape = pick(3) ? Shape{oneOf(extents)} : Shape{};
  const size_t count = 1 + pick(3);
  std::optional<Arena> memory = newArena(element, count, false);
  if (!memory)
    return;
  SmallVector<Value> constants, loaded;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = specialBits(element);
    Value scalar = constantBits({}, element, bits);
    Value ptr = op<tile::AddPtrOp>(memory->base.getType(), memory->base, number(i));
    tile::StoreOp::create(builder, loc, ptr, scalar, Value());
    Value read = op<tile::LoadOp>(ptr);
    loaded.push_back(shape.empty() ? read : splat(read, shape));
    constants.push_back(shape.empty() ? scalar : constantBits(shape, element, bits));
  }
  std::vector<Value> outer = tiles;
  const std::mt19937_64 before = random;
  SmallVector<Value> results;
  for (const SmallVector<Value> &operands : {constants, loaded}) {
    random = before;
    tiles.assign(operands.begin(), operands.end());
    results.push_back(folded());
  }
  tiles = outer;
  for (Value result : results)
    store(shapeOf(result).empty() ? splat(result, {oneOf(extents)}) : result);
}

} // namespace sectile::fuzz
