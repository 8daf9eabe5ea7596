// The `tile` dialect: registration and types.
#include "ir/tile/Tile.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "ir/tile/TileDialect.cpp.inc"
#include "ir/tile/TileEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/tile/TileTypes.cpp.inc"

namespace sectile::tile {

void TileDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/tile/TileTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/tile/TileOps.cpp.inc"
      >();
}

Operation *TileDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                            Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

Type withElementType(Type type, Type element) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    return tensor.clone(element);
  return element;
}

ArrayRef<int64_t> shapeOf(Type type) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    return tensor.getShape();
  return {};
}

std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (auto [i, extent] : llvm::enumerate(shape))
    text += (i ? ", " : "") + std::to_string(extent);
  return text + "]";
}

/// What memory holds: numbers, and in tables pointers.
static LogicalResult verifyElement(llvm::function_ref<InFlightDiagnostic()> emitError,
                                   Type element) {
  if (element.isSignlessInteger() || isa<FloatType, PtrType>(element))
    return success();
  return emitError() << "memory holds numbers and pointers, not " << element;
}

LogicalResult PtrType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, Type element) {
  return verifyElement(emitError, element);
}

LogicalResult ViewType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, unsigned,
                               Type element) {
  return verifyElement(emitError, element);
}

Type ViewType::parse(AsmParser &parser) {
  SmallVector<int64_t, 2> rank;
  Type element;
  if (parser.parseLess() ||
      parser.parseDimensionList(rank, /*allowDynamic=*/false, /*withTrailingX=*/true) ||
      parser.parseType(element) || parser.parseGreater())
    return {};
  if (rank.size() != 1) {
    parser.emitError(parser.getNameLoc(),
                     "a view has one number, its rank, before the element type");
    return {};
  }
  return getChecked([&] { return parser.emitError(parser.getNameLoc()); }, element.getContext(),
                    rank[0], element);
}

void ViewType::print(AsmPrinter &printer) const {
  printer << '<' << getRank() << 'x' << getElement() << '>';
}

} // namespace sectile::tile
