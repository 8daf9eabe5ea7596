// Verifiers and folders of the `tile` operations that combine elements.
#include "ir/tile/Tile.h"
#include "ir/tile/Verify.h"
#include "mlir/Dialect/CommonFolders.h"
#include "mlir/Dialect/UB/IR/UBOps.h"

using namespace mlir;
using namespace sectile::tile;

template <typename Op>
static OpFoldResult foldNumbers(Op op, typename Op::FoldAdaptor adaptor,
                                llvm::APFloat (*which)(const llvm::APFloat &,
                                                       const llvm::APFloat &)) {
  if (op.getA() == op.getB())
    return op.getA();
  return constFoldBinaryOp<FloatAttr>(adaptor.getOperands(), which);
}

OpFoldResult MinimumNumberOp::fold(FoldAdaptor adaptor) {
  return foldNumbers(*this, adaptor, llvm::minimumnum);
}

OpFoldResult MaximumNumberOp::fold(FoldAdaptor adaptor) {
  return foldNumbers(*this, adaptor, llvm::maximumnum);
}

LogicalResult DotOp::verify() {
  auto a = getA().getType(), b = getB().getType(), acc = getAcc().getType();
  if (a.getRank() != b.getRank() || acc.getRank() != a.getRank())
    return emitOpError("of ") << shapeText(a.getShape()) << " and " << shapeText(b.getShape())
                              << " into " << shapeText(acc.getShape()) << ": the ranks differ";
  unsigned row = a.getRank() - 2, column = row + 1;
  if (a.getDimSize(column) != b.getDimSize(row))
    return emitOpError("of ") << shapeText(a.getShape()) << " and " << shapeText(b.getShape())
                              << ": the inner extents differ";
  if (row && (a.getDimSize(0) != b.getDimSize(0) || acc.getDimSize(0) != a.getDimSize(0)))
    return emitOpError("of ") << shapeText(a.getShape()) << " and " << shapeText(b.getShape())
                              << " into " << shapeText(acc.getShape())
                              << ": the numbers of matrices differ";
  if (acc.getDimSize(row) != a.getDimSize(row) || acc.getDimSize(column) != b.getDimSize(column))
    return emitOpError("of ") << shapeText(a.getShape()) << " and " << shapeText(b.getShape())
                              << " has an accumulator of " << shapeText(acc.getShape());
  auto isFp8 = [](Type type) { return isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 8; };
  bool fp8 = isFp8(a.getElementType()) && isFp8(b.getElementType());
  if (a.getElementType() != b.getElementType() && !fp8)
    return emitOpError("operands are ") << a.getElementType() << " and " << b.getElementType();
  Type sum = acc.getElementType();
  bool fits = a.getElementType().isInteger(8) ? sum.isInteger(32)
              : a.getElementType().isF64()    ? sum.isF64()
              : a.getElementType().isF16()    ? sum.isF32() || sum.isF16()
                                              : sum.isF32();
  if (!fits)
    return emitOpError("of ") << a.getElementType() << " operands cannot accumulate in " << sum;
  return success();
}

LogicalResult ReduceOp::verify() {
  if (getSources().empty())
    return emitOpError("needs a tile to reduce");
  if (getSources().size() != getResults().size())
    return emitOpError("has ") << getSources().size() << " tiles and " << getResults().size()
                               << " results";
  auto first = cast<RankedTensorType>(getSources()[0].getType());
  if (getAxis() >= first.getRank())
    return emitOpError("axis ") << getAxis() << " is beyond the rank " << first.getRank();
  SmallVector<int64_t> shape(first.getShape());
  shape.erase(shape.begin() + getAxis());
  for (auto [source, result] : llvm::zip(getSources(), getResults())) {
    auto type = cast<RankedTensorType>(source.getType());
    if (type.getShape() != first.getShape() || type.getEncoding() != first.getEncoding())
      return emitOpError("tiles differ in shape or layout");
    if (elementType(result.getType()) != type.getElementType() ||
        shapeOf(result.getType()) != ArrayRef<int64_t>(shape))
      return emitOpError("of ") << type << " along axis " << getAxis() << " cannot give "
                                << result.getType();
  }
  return success();
}

/// A combiner takes two values per tile and yields one, all of the tile's element type.
static LogicalResult verifyCombiner(Operation *op, Block &body, ValueRange sources) {
  size_t n = sources.size();
  if (body.getNumArguments() != 2 * n)
    return op->emitOpError() << "combiner takes " << body.getNumArguments() << " values instead of "
                             << 2 * n;
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield || yield.getValues().size() != n)
    return op->emitOpError() << "combiner must yield one value per tile";
  for (size_t i = 0; i < n; ++i) {
    Type element = elementType(sources[i].getType());
    if (body.getArgument(i).getType() != element || body.getArgument(n + i).getType() != element ||
        yield.getValues()[i].getType() != element)
      return op->emitOpError() << "combiner's value " << i << " must be " << element
                               << " throughout";
  }
  return success();
}

LogicalResult ReduceOp::verifyRegions() {
  return verifyCombiner(*this, getCombiner().front(), getSources());
}

LogicalResult ScanOp::verify() {
  if (getSources().empty())
    return emitOpError("needs a tile to scan");
  if (getSources().getTypes() != getResults().getTypes())
    return emitOpError("gives tiles of the types that it takes");
  auto first = cast<RankedTensorType>(getSources()[0].getType());
  if (getAxis() >= first.getRank())
    return emitOpError("axis ") << getAxis() << " is beyond the rank " << first.getRank();
  for (Value source : getSources())
    if (failed(sameTile(*this, source.getType(), first, "the tiles")))
      return failure();
  return success();
}

LogicalResult ScanOp::verifyRegions() {
  return verifyCombiner(*this, getCombiner().front(), getSources());
}

LogicalResult HistogramOp::verify() {
  Type added = IntegerType::get(getContext(), 32);
  if (getWeights())
    added = elementType(getWeights().getType());
  if (elementType(getType()) != added)
    return emitOpError("sums ") << added << ", not " << elementType(getType());
  if (getWeights() && failed(sameTile(*this, getSource().getType(), getWeights().getType(),
                                      "elements and weights")))
    return failure();
  if (getMask())
    return sameTile(*this, getSource().getType(), getMask().getType(), "elements and mask");
  return success();
}

LogicalResult MapOp::verify() {
  if (getSources().empty() || getResults().empty())
    return emitOpError("needs a tile to work on, and a result");
  Type first = getSources()[0].getType();
  for (Value value : llvm::concat<Value>(llvm::to_vector(getSources().drop_front()),
                                         llvm::to_vector(getResults())))
    if (failed(sameTile(*this, value.getType(), first, "the tiles")))
      return failure();
  return success();
}

LogicalResult sectile::tile::verifyFunction(Operation *op, Block &body, StringRef what) {
  auto yield = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
  auto elements = [](TypeRange types) {
    return llvm::map_to_vector(types, [](Type type) { return elementType(type); });
  };
  if (!yield || elements(op->getOperandTypes()) != llvm::to_vector(body.getArgumentTypes()) ||
      elements(op->getResultTypes()) != llvm::to_vector(yield.getValues().getTypes()))
    return op->emitOpError(what) << " takes one element per tile and yields one per result";
  return success();
}

LogicalResult MapOp::verifyRegions() {
  return verifyFunction(*this, getFunction().front(), "function");
}

LogicalResult DotScaledOp::verify() {
  constexpr int64_t sharing = 32;
  auto elements = [](Value operand) {
    return cast<RankedTensorType>(operand.getType()).getElementType();
  };
  auto extent = [](Value operand, unsigned axis) {
    return cast<RankedTensorType>(operand.getType()).getDimSize(axis);
  };
  for (Value operand : {getA(), getB()})
    if (Type type = elements(operand); !type.isInteger(8) &&
                                       !isa<Float8E4M3FNType, Float8E5M2Type>(type) &&
                                       !type.isF16() && !type.isBF16())
      return emitOpError("does not take operands of ") << type;
  if (getResult().getType() != getAcc().getType())
    return emitOpError("gives the accumulator's type");
  int64_t kA = extent(getA(), 1) * (elements(getA()).isInteger(8) ? 2 : 1);
  int64_t kB = extent(getB(), 0) * (elements(getB()).isInteger(8) ? 2 : 1);
  if (kA != kB)
    return emitOpError("inner extents are ") << kA << " and " << kB;
  if (extent(getAcc(), 0) != extent(getA(), 0) || extent(getAcc(), 1) != extent(getB(), 1))
    return emitOpError("accumulator has the wrong shape");
  auto fits = [&](Value scale, int64_t rows) {
    return !scale ||
           (kA % sharing == 0 && extent(scale, 0) == rows && extent(scale, 1) == kA / sharing);
  };
  if (!fits(getAScale(), extent(getA(), 0)) || !fits(getBScale(), extent(getB(), 1)))
    return emitOpError("scales are not one per ") << sharing << " elements along K";
  return success();
}
