// Every dot becomes matrix instructions of the target where it has some that fit, else fused
// multiply-adds.
#include "ir/MmaElements.h"
#include "passes/Check.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"

namespace sectile {
#define GEN_PASS_DEF_SELECTMMA
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

/// What matrix units are to take the dot's elements as, if any do.
std::optional<MmaElement> mmaElement(Type type, tile::Precision precision) {
  if (!type.isF32())
    return mmaElementOf(type);
  switch (precision) {
  case tile::Precision::TF32:
  case tile::Precision::TF32x3:
    return MmaElement::TF32;
  case tile::Precision::BF16x3:
  case tile::Precision::BF16x6:
    return MmaElement::BF16;
  case tile::Precision::IEEE:
    return std::nullopt;
  }
  llvm_unreachable("all precisions are covered");
}

bool isFp8(Type type) { return isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 8; }

struct SelectMma : sectile::impl::SelectMmaBase<SelectMma> {
  void runOnOperation() override {
    FailureOr<Target> target = targetOf(getOperation());
    if (failed(target) || failed(checkBare(getOperation())))
      return signalPassFailure();
    getOperation().walk([&](tile::DotOp dot) { select(dot, *target); });
  }

  /// The instruction for operands of this element, if the dot's extents are multiples of its own.
  /// Where they are not, `refusal` says which.
  static const MmaShape *instructionFor(tile::DotOp dot, Type element, const Target &target,
                                        std::string &refusal) {
    std::optional<MmaElement> kind = mmaElement(element, dot.getPrecision());
    const MmaShape *shape = kind ? target.mmaFor(*kind) : nullptr;
    if (!shape)
      return nullptr;
    ArrayRef<int64_t> sums = dot.getType().getShape();
    int64_t m = sums[sums.size() - 2], n = sums.back(), k = dot.getA().getType().getShape().back();
    auto multiple = [&](StringRef name, int64_t extent, unsigned of) {
      if (extent % of == 0)
        return true;
      refusal = (name + " = " + Twine(extent) + " is no multiple of the instruction's " + Twine(of))
                    .str();
      return false;
    };
    return multiple("m", m, shape->m) && multiple("n", n, shape->n) && multiple("k", k, shape->k)
               ? shape
               : nullptr;
  }

  static Value cast(OpBuilder &builder, Location loc, Value tile, Type element) {
    auto type = mlir::cast<RankedTensorType>(tile.getType());
    if (type.getElementType() == element)
      return tile;
    if (type.getElementTypeBitWidth() < element.getIntOrFloatBitWidth())
      return arith::ExtFOp::create(builder, loc, type.clone(element), tile);
    return arith::TruncFOp::create(builder, loc, type.clone(element), tile);
  }

  static void select(tile::DotOp dot, const Target &target) {
    OpBuilder builder(dot);
    Location loc = dot.getLoc();
    Value a = dot.getA(), b = dot.getB(), acc = dot.getAcc();
    Type element = dot.getA().getType().getElementType();
    std::string refusal;
    const MmaShape *shape = instructionFor(dot, element, target, refusal);
    if (isFp8(element) &&
        (!shape || !instructionFor(dot, dot.getB().getType().getElementType(), target, refusal))) {
      // f16 holds every fp8 number, and its products are exact as well.
      element = builder.getF16Type();
      a = cast(builder, loc, a, element);
      b = cast(builder, loc, b, element);
      shape = instructionFor(dot, element, target, refusal);
    }
    if (!shape && !refusal.empty())
      dot.emitRemark("computed by fused multiply-adds instead of matrix instructions: ") << refusal;
    // Multiply-adds sum in f32 even where the result is f16.
    Type sum = dot.getType().getElementType();
    if (!shape && sum.isF16())
      acc = cast(builder, loc, acc, builder.getF32Type());
    DenseI32ArrayAttr instruction;
    if (shape)
      instruction = builder.getDenseI32ArrayAttr({int(shape->m), int(shape->n), int(shape->k)});
    Value result =
        cta::DotOp::create(builder, loc, acc.getType(), a, b, acc, instruction, dot.getPrecision());
    dot.replaceAllUsesWith(cast(builder, loc, result, sum));
    dot.erase();
  }
};

} // namespace
