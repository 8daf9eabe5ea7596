// Which element types matrix units multiply, and as what.
#include "ir/MmaElements.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace sectile {

std::optional<MmaElement> mmaElementOf(Type type) {
  if (type.isF16())
    return MmaElement::F16;
  if (type.isBF16())
    return MmaElement::BF16;
  if (type.isF32())
    return MmaElement::TF32;
  if (type.isF64())
    return MmaElement::F64;
  if (type.isInteger(8))
    return MmaElement::I8;
  if (isa<Float8E4M3FNType>(type))
    return MmaElement::F8E4M3;
  if (isa<Float8E5M2Type>(type))
    return MmaElement::F8E5M2;
  return std::nullopt;
}

} // namespace sectile
