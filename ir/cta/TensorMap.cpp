// Tensor maps as attributes.
#include "ir/cta/TensorMap.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace sectile::cta {

Attribute TensorMap::toAttribute(MLIRContext *context) const {
  Builder builder(context);
  auto all = [&](ArrayRef<Given> given) -> Attribute {
    SmallVector<int64_t> numbers;
    for (const Given &each : given)
      llvm::append_values(numbers, each.argument, each.constant, each.factor);
    return builder.getDenseI64ArrayAttr(numbers);
  };
  SmallVector<NamedAttribute> fields = {
      builder.getNamedAttr("pointer", builder.getI64IntegerAttr(pointer)),
      builder.getNamedAttr("element_bytes", builder.getI64IntegerAttr(elementBytes)),
      builder.getNamedAttr("swizzle", builder.getI64IntegerAttr(swizzle)),
      builder.getNamedAttr("extents", all(extents)),
      builder.getNamedAttr("strides", all(strides)),
      builder.getNamedAttr("box", builder.getDenseI64ArrayAttr(box))};
  if (number != TensorNumber::Bits)
    fields.push_back(builder.getNamedAttr("number", builder.getI64IntegerAttr(int64_t(number))));
  if (isWritten)
    fields.push_back(builder.getNamedAttr("written", builder.getUnitAttr()));
  return builder.getDictionaryAttr(fields);
}

TensorMap TensorMap::fromAttribute(Attribute attribute) {
  auto fields = cast<DictionaryAttr>(attribute);
  auto number = [&](StringRef name) { return cast<IntegerAttr>(fields.get(name)).getInt(); };
  auto numbers = [&](StringRef name) {
    return cast<DenseI64ArrayAttr>(fields.get(name)).asArrayRef();
  };
  auto all = [&](StringRef name) {
    SmallVector<Given, 2> given;
    for (ArrayRef<int64_t> rest = numbers(name); rest.size() >= 3; rest = rest.drop_front(3))
      given.push_back({rest[0], rest[1], rest[2]});
    return given;
  };
  TensorMap map;
  map.pointer = number("pointer");
  map.elementBytes = number("element_bytes");
  map.swizzle = number("swizzle");
  map.extents = all("extents");
  map.strides = all("strides");
  map.box.assign(numbers("box").begin(), numbers("box").end());
  if (fields.contains("number"))
    map.number = TensorNumber(number("number"));
  map.isWritten = fields.contains("written");
  return map;
}

std::optional<TensorNumber> addedAs(Type element) {
  return element.isF16()    ? std::optional(TensorNumber::Half)
         : element.isBF16() ? std::optional(TensorNumber::BFloat)
         : element.isF32()  ? std::optional(TensorNumber::Float)
                            : std::nullopt;
}

std::optional<TensorMap::Given> givenToLaunch(Value value) {
  if (auto extension = value.getDefiningOp<arith::ExtSIOp>())
    value = extension.getIn();
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return TensorMap::Given{-1, constant.getSExtValue()};
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (!isa<func::FuncOp>(argument.getOwner()->getParentOp()) || !value.getType().isInteger())
      return std::nullopt;
    return TensorMap::Given{int64_t(argument.getArgNumber())};
  }
  auto difference = value.getDefiningOp<arith::SubIOp>();
  if (!difference || !value.getType().isInteger(64) ||
      !matchPattern(difference.getLhs(), m_ConstantInt(&constant)))
    return std::nullopt;
  std::optional<TensorMap::Given> less = givenToLaunch(difference.getRhs());
  if (less)
    *less = {less->argument, constant.getSExtValue() - less->constant, -less->factor};
  return less;
}

} // namespace sectile::cta
