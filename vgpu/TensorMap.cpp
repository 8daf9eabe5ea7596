// The rules for tensor maps.
#include "vgpu/TensorMap.h"
#include "runtime/Artifact.h"
#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

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

TensorMap TensorMap::encode(TensorMap map) {
  auto refuse = [](const char *why) {
    throw std::invalid_argument(std::string("tensor map: ") + why);
  };
  if (map.rank < 1 || map.rank > 5)
    refuse("the rank is not 1 to 5");
  if (map.type > TensorType::TF32Flushed)
    refuse("there is no such type");
  if (map.address % 16)
    refuse("the address is no multiple of 16");
  for (unsigned i = 0; i < map.rank; ++i) {
    if (map.extents[i] < 1 || map.extents[i] > uint64_t(1) << 32)
      refuse("an extent is not 1 to 2^32");
    if (map.box[i] < 1 || map.box[i] > 256)
      refuse("a side of the box is not 1 to 256");
    if (map.steps[i] < 1 || map.steps[i] > 8)
      refuse("a step is not 1 to 8");
    if (i && (map.strides[i - 1] % 16 || map.strides[i - 1] >= uint64_t(1) << 40))
      refuse("a stride is no multiple of 16, or 2^40 or more");
  }
  if (map.rowBytes() % 16)
    refuse("the rows of the box are no multiple of 16 bytes");
  if (map.swizzle && map.swizzle != 32 && map.swizzle != 64 && map.swizzle != 128)
    refuse("the swizzle is not 0, 32, 64 or 128 bytes");
  if (map.swizzle && map.rowBytes() > map.swizzle)
    refuse("the rows of the box are wider than the swizzle");
  const bool isFloat = map.type >= TensorType::F16;
  if (map.fillsWithNaN && !isFloat)
    refuse("integers cannot be filled with NaN");
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

TensorMap TensorMap::of(const TensorMapValues &values) {
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
  map = encode(map);
  if (values.isEmpty())
    std::fill_n(map.extents, values.rank, 0);
  return map;
}

} // namespace sectile::vgpu
