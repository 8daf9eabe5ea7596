// Tensors of DLPack, as the C interface borrows them.
#pragma once
#include "capi/Status.h"
#include <optional>
#include <sectile/library.h>

namespace sectile::c {

// The type of the elements; none where Sectile has no such type.
std::optional<DType> dtypeOf(DLDataType type);
DLDataType typeOf(DType dtype);
// "f32 [2, 3]", for messages.
std::string describe(const DLTensor &tensor);
// The tensor, which lies on the device; its memory is borrowed. `who` is what messages call it.
// Throws Refusal.
AnyTensor borrow(const Device &device, const DLTensor &tensor, const std::string &who);
// The same without memory, of no device.
AnyTensor shapeOf(const DLTensor &tensor, const std::string &who);

} // namespace sectile::c
