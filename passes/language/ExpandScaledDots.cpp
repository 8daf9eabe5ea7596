// Dots of the microscaling formats where no chip has them yet: operands are decoded, scaled and
// multiplied as bf16, which holds every scaled number of theirs within its range, or as tf32 where
// one of them is f16.
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"

namespace sectile {
#define GEN_PASS_DEF_EXPANDSCALEDDOTS
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

RankedTensorType tileType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The operations that one dot becomes.
class Expansion {
public:
  explicit Expansion(tile::DotScaledOp dot) : dot(dot), b(dot), loc(dot.getLoc()) {}

  void run() {
    bool anyF16 = llvm::any_of(ValueRange{dot.getA(), dot.getB()}, [](Value operand) {
      return tileType(operand).getElementType().isF16();
    });
    Type element = anyF16 ? Type(b.getF32Type()) : Type(b.getBF16Type());
    Value left = operand(dot.getA(), dot.getAScale(), 1, element);
    Value right = operand(dot.getB(), dot.getBScale(), 0, element);
    Value product = tile::DotOp::create(b, loc, dot.getType(), left, right, dot.getAcc(),
                                        tile::Precision::TF32);
    dot.replaceAllUsesWith(product);
    dot.erase();
  }

private:
  /// The operand's numbers, times their scales. `inner` is its axis along K.
  Value operand(Value packed, Value scale, unsigned inner, Type element) {
    if (!scale && tileType(packed).getElementType() == element)
      return packed;
    Value number = asF32(packed, inner);
    if (scale) {
      Value factor = factors(scale, tileType(number).getShape()[inner]);
      if (inner == 0)
        factor = tile::PermuteOp::create(b, loc, tileType(number), factor,
                                         b.getDenseI32ArrayAttr({1, 0}));
      number = arith::MulFOp::create(b, loc, number, factor);
    }
    if (element.isF32())
      return number;
    return arith::TruncFOp::create(b, loc, tileType(number).clone(element), number);
  }

  Value asF32(Value tile, unsigned inner) {
    RankedTensorType type = tileType(tile);
    if (type.getElementType().isInteger(8))
      return fromE2M1(tile, inner);
    return arith::ExtFOp::create(b, loc, type.clone(b.getF32Type()), tile);
  }

  /// Two numbers in each byte. s_ee_m is put where f16 has its sign, the lower bits of its exponent
  /// and the highest of its mantissa, which makes it too small by the difference of the biases.
  Value fromE2M1(Value bytes, unsigned inner) {
    Value codes = alongPairs(bytes, inner);
    Value sign = arith::AndIOp::create(b, loc, codes, number(codes.getType(), 8));
    Value rest = arith::AndIOp::create(b, loc, codes, number(codes.getType(), 7));
    Value high = arith::ShLIOp::create(b, loc, sign, number(codes.getType(), 12));
    Value low = arith::ShLIOp::create(b, loc, rest, number(codes.getType(), 9));
    Value bits = arith::OrIOp::create(b, loc, high, low);
    RankedTensorType type = tileType(bits);
    Value small = arith::BitcastOp::create(b, loc, type.clone(b.getF16Type()), bits);
    Value wide = arith::ExtFOp::create(b, loc, type.clone(b.getF32Type()), small);
    constexpr float bias = 1 << 14;
    return arith::MulFOp::create(b, loc, wide, number(wide.getType(), bias));
  }

  /// Each byte as two i16 along an axis, with the low half of it and the high one in their lowest
  /// bits.
  Value alongPairs(Value bytes, unsigned axis) {
    RankedTensorType type = tileType(bytes);
    Value wide = arith::ExtUIOp::create(b, loc, type.clone(b.getI16Type()), bytes);
    SmallVector<int64_t> shape(type.getShape());
    Value twice = repeated(wide, axis + 1, 2);
    Value which = tile::ArangeOp::create(b, loc, RankedTensorType::get({2}, b.getI32Type()), 0);
    Value four = number(which.getType(), 4);
    Value shift = arith::MulIOp::create(b, loc, which, four);
    shift = arith::TruncIOp::create(b, loc, RankedTensorType::get({2}, b.getI16Type()), shift);
    SmallVector<int64_t> expanded{2};
    for (unsigned before = 0; before <= axis; ++before) {
      expanded.insert(expanded.begin(), 1);
      shift = tile::ExpandDimsOp::create(b, loc, RankedTensorType::get(expanded, b.getI16Type()),
                                         shift, 0);
    }
    for (unsigned after = axis + 1; after < shape.size(); ++after) {
      expanded.push_back(1);
      shift = tile::ExpandDimsOp::create(b, loc, RankedTensorType::get(expanded, b.getI16Type()),
                                         shift, expanded.size() - 1);
    }
    Value shifts = tile::BroadcastOp::create(b, loc, twice.getType(), shift);
    Value codes = arith::ShRUIOp::create(b, loc, twice, shifts);
    shape[axis] *= 2;
    return tile::ReshapeOp::create(b, loc, RankedTensorType::get(shape, b.getI16Type()), codes);
  }

  /// Powers of two from e8m0 codes, [rows, K / 32], each for 32 numbers of a row: [rows, K].
  Value factors(Value scale, int64_t k) {
    RankedTensorType type = tileType(scale);
    RankedTensorType wide = type.clone(b.getI32Type());
    Value code = arith::ExtUIOp::create(b, loc, wide, scale);
    // The code is f32's exponent. 0 stands for 2^-127, which f32 has as a subnormal number, and 255
    // for NaN, where f32 has infinity if the mantissa is zero.
    Value bits = arith::ShLIOp::create(b, loc, code, number(wide, 23));
    constexpr int64_t smallest = 1 << 22, nan = 0x7fc0'0000;
    auto is = [&](int64_t what) {
      return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, code, number(wide, what));
    };
    Value isZero = is(0), isNaN = is(255);
    bits = arith::SelectOp::create(b, loc, isZero, number(wide, smallest), bits);
    bits = arith::SelectOp::create(b, loc, isNaN, number(wide, nan), bits);
    Value factor = arith::BitcastOp::create(b, loc, type.clone(b.getF32Type()), bits);
    Value many = repeated(factor, 2, k / type.getDimSize(1));
    return tile::ReshapeOp::create(
        b, loc, RankedTensorType::get({type.getDimSize(0), k}, b.getF32Type()), many);
  }

  /// With a new axis along which everything is repeated.
  Value repeated(Value tile, unsigned axis, int64_t count) {
    RankedTensorType type = tileType(tile);
    SmallVector<int64_t> shape(type.getShape());
    shape.insert(shape.begin() + axis, 1);
    Value expanded = tile::ExpandDimsOp::create(
        b, loc, RankedTensorType::get(shape, type.getElementType()), tile, axis);
    shape[axis] = count;
    return tile::BroadcastOp::create(b, loc, RankedTensorType::get(shape, type.getElementType()),
                                     expanded);
  }

  Value number(Type type, double value) {
    auto tile = cast<RankedTensorType>(type);
    Attribute one = isa<FloatType>(tile.getElementType())
                        ? Attribute(b.getFloatAttr(tile.getElementType(), value))
                        : Attribute(b.getIntegerAttr(tile.getElementType(), int64_t(value)));
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(tile, one));
  }

  tile::DotScaledOp dot;
  OpBuilder b;
  Location loc;
};

struct ExpandScaledDots : sectile::impl::ExpandScaledDotsBase<ExpandScaledDots> {
  void runOnOperation() override {
    for (tile::DotScaledOp dot : allIn<tile::DotScaledOp>(getOperation()))
      Expansion(dot).run();
  }
};

} // namespace
