// Tensor maps as attributes.
#include "ir/cta/TensorMap.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;

namespace sectile::cta {

Attribute TensorMap::toAttribute(MLIRContext *context) const {
  Builder builder(context);
  auto all = [&](ArrayRef<Given> given) -> Attribute {
    SmallVector<int64_t> numbers;
    for (const Given &each : given)
      llvm::append_values(numbers, each.argument, each.value);
    return builder.getDenseI64ArrayAttr(numbers);
  };
  SmallVector<NamedAttribute> fields = {
      builder.getNamedAttr("pointer", builder.getI64IntegerAttr(pointer)),
      builder.getNamedAttr("element_bytes", builder.getI64IntegerAttr(elementBytes)),
      builder.getNamedAttr("swizzle", builder.getI64IntegerAttr(swizzle)),
      builder.getNamedAttr("extents", all(extents)),
      builder.getNamedAttr("strides", all(strides)),
      builder.getNamedAttr("box", builder.getDenseI64ArrayAttr(box))};
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
    for (ArrayRef<int64_t> rest = numbers(name); rest.size() >= 2; rest = rest.drop_front(2))
      given.push_back({rest[0], rest[1]});
    return given;
  };
  TensorMap map;
  map.pointer = number("pointer");
  map.elementBytes = number("element_bytes");
  map.swizzle = number("swizzle");
  map.extents = all("extents");
  map.strides = all("strides");
  map.box.assign(numbers("box").begin(), numbers("box").end());
  map.isWritten = fields.contains("written");
  return map;
}

} // namespace sectile::cta
