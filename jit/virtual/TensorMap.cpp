// The rules for tensor maps.
#include "jit/virtual/TensorMap.h"
#include "runtime/Artifact.h"
#include <algorithm>
#include <bit>

namespace sectile::vgpu {

unsigned bytesOf(TensorType type) {
  switch (type) {
  case TensorType::U8:
    return 1;
  case TensorType::U16:
  case TensorType::F16:
  case TensorType::BF16:
    return 2;
  case TensorType::U64:
  case TensorType::S64:
  case TensorType::F64:
    return 8;
  default:
    return 4;
  }
}

llvm::Expected<TensorMap> TensorMap::encode(TensorMap map) {
  auto refuse = [](const char *why) { return llvm::createStringError("tensor map: %s", why); };
  if (map.rank < 1 || map.rank > 5)
    return refuse("the rank is not 1 to 5");
  if (map.type > TensorType::TF32Flushed)
    return refuse("there is no such type");
  if (map.address % 16)
    return refuse("the address is no multiple of 16");
  for (unsigned i = 0; i < map.rank; ++i) {
    if (map.extents[i] < 1 || map.extents[i] > uint64_t(1) << 32)
      return refuse("an extent is not 1 to 2^32");
    if (map.box[i] < 1 || map.box[i] > 256)
      return refuse("a side of the box is not 1 to 256");
    if (map.steps[i] < 1 || map.steps[i] > 8)
      return refuse("a step is not 1 to 8");
    if (i && (map.strides[i - 1] % 16 || map.strides[i - 1] >= uint64_t(1) << 40))
      return refuse("a stride is no multiple of 16, or 2^40 or more");
  }
  if (map.rowBytes() % 16)
    return refuse("the rows of the box are no multiple of 16 bytes");
  if (map.swizzle && map.swizzle != 32 && map.swizzle != 64 && map.swizzle != 128)
    return refuse("the swizzle is not 0, 32, 64 or 128 bytes");
  if (map.swizzle && map.rowBytes() > map.swizzle)
    return refuse("the rows of the box are wider than the swizzle");
  const bool isFloat = map.type >= TensorType::F16;
  if (map.fillsWithNaN && !isFloat)
    return refuse("integers cannot be filled with NaN");
  map.magic = magicNumber;
  return map;
}

static TensorType typeOf(const TensorMapValues &values) {
  static constexpr TensorType types[] = {TensorType::U8, TensorType::U16, TensorType::U32,
                                         TensorType::U64};
  switch (values.number) {
  case TensorNumber::Half:
    return TensorType::F16;
  case TensorNumber::BFloat:
    return TensorType::BF16;
  case TensorNumber::Float:
    return TensorType::F32;
  case TensorNumber::Bits:
    break;
  }
  return types[std::countr_zero(values.elementBytes)];
}

llvm::Expected<TensorMap> TensorMap::of(const TensorMapValues &values) {
  TensorMap map;
  map.address = values.address;
  map.rank = static_cast<uint8_t>(values.rank);
  map.type = typeOf(values);
  map.swizzle = static_cast<uint8_t>(values.swizzle);
  for (unsigned i = 0; i < values.rank; ++i) {
    map.extents[i] = values.isEmpty() ? 1 : values.extents[i];
    map.box[i] = values.box[i];
    if (i + 1 < values.rank)
      map.strides[i] = values.isEmpty() ? 16 : values.strides[i];
  }
  llvm::Expected<TensorMap> encoded = encode(map);
  if (encoded && values.isEmpty())
    std::fill_n(encoded->extents, values.rank, 0);
  return encoded;
}

} // namespace sectile::vgpu
