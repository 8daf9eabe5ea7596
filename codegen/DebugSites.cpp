// Sites of assertions and prints from the IR.
#include "codegen/DebugSites.h"
#include "codegen/common/DebugInfo.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/DebugLog.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace sectile {

std::string debugTypeName(Type element, bool isUnsigned) {
  return llvm::TypeSwitch<Type, std::string>(element)
      .Case([&](IntegerType type) -> std::string {
        if (type.getWidth() == 1)
          return "bool";
        return (isUnsigned ? "u" : "i") + std::to_string(type.getWidth());
      })
      .Case([](Float8E4M3FNType) { return "f8e4m3"; })
      .Case([](Float8E5M2Type) { return "f8e5m2"; })
      .Case([](tile::PtrType) { return "ptr"; })
      .Default([](Type type) {
        std::string name;
        llvm::raw_string_ostream(name) << type;
        return name;
      });
}

static DebugSite siteAt(Location location, StringRef text) {
  DebugSite site;
  site.text = text.str();
  if (FileLineColLoc line = lineOf(location)) {
    site.file = line.getFilename().str();
    site.line = line.getLine();
  }
  return site;
}

static DebugSite assertion(Location location, StringRef text, ArrayRef<int64_t> shape) {
  DebugSite site = siteAt(location, text);
  site.values.push_back({"bool", shape.vec()});
  return site;
}

template <class Types>
static DebugSite print(Location location, StringRef text, bool hex, const Types &types,
                       ArrayRef<bool> isUnsigned) {
  DebugSite site = siteAt(location, text);
  site.isPrint = true;
  site.hex = hex;
  for (Type type : types) {
    bool natural = !isUnsigned.empty() && isUnsigned[site.values.size()];
    site.values.push_back(
        {debugTypeName(tile::elementType(type), natural), tile::shapeOf(type).vec()});
  }
  return site;
}

DebugSite debugSiteOf(tile::AssertOp op) {
  return assertion(op.getLoc(), op.getMessage(), tile::shapeOf(op.getCondition().getType()));
}

DebugSite debugSiteOf(tile::PrintOp op) {
  return print(op.getLoc(), op.getPrefix(), op.getHex(), op.getValues().getTypes(),
               op.getIsUnsigned().value_or(ArrayRef<bool>()));
}

std::vector<DebugSite> debugSitesOf(func::FuncOp kernel) {
  std::vector<DebugSite> sites;
  auto described = kernel->getAttrOfType<ArrayAttr>(StringRef(debuglog::sitesAttr));
  if (!described)
    return sites;
  for (auto site : described.getAsRange<DictionaryAttr>()) {
    Location location(site.getAs<LocationAttr>("loc"));
    StringRef text = site.getAs<StringAttr>("text").getValue();
    auto values = site.getAs<ArrayAttr>("values");
    if (!values) {
      sites.push_back(assertion(location, text, site.getAs<DenseI64ArrayAttr>("shape")));
      continue;
    }
    auto isUnsigned = site.getAs<DenseBoolArrayAttr>("unsigned");
    sites.push_back(print(location, text, site.contains("hex"), values.getAsValueRange<TypeAttr>(),
                          isUnsigned ? isUnsigned.asArrayRef() : ArrayRef<bool>()));
  }
  return sites;
}

} // namespace sectile
