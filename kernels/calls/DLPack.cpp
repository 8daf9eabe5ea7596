// What <sectile/dlpack.h> needs of devices and types.
#include "runtime/DeviceImpl.h"
#include <sectile/dlpack.h>

namespace sectile::detail {

DLPackType dlpackTypeOf(DType dtype) {
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  for (int code = 0; code <= 13; ++code)
    if (dtypeOfDLPack(code, bits) == dtype)
      return {code, bits};
  throw LaunchError("DLPack has no type for " + std::string(name_of(dtype)));
}

static std::string dlpackName(int kind) {
  switch (kind) {
  case 1:
    return "the host's memory (kDLCPU)";
  case 2:
    return "CUDA (kDLCUDA)";
  case 3:
    return "the host's pinned memory (kDLCUDAHost)";
  case 10:
    return "ROCm (kDLROCM)";
  default:
    return "memory of another kind (DLPack's number " + std::to_string(kind) + ")";
  }
}

Memory borrowDLPack(const Device &device, const DLPackPlace &place) {
  const runtime::DeviceImpl &impl = *device.impl();
  if (place.kind != impl.dlpackDevice)
    throw LaunchError("a DLPack tensor in " + dlpackName(place.kind) + " was given for " +
                      device.name() + ", whose kind is " + dlpackName(impl.dlpackDevice));
  if (place.index != impl.dlpackIndex)
    throw LaunchError("a DLPack tensor on device " + std::to_string(place.index) +
                      " of its kind was given for " + device.name() + ", which is device " +
                      std::to_string(impl.dlpackIndex));
  int64_t low = 0, high = 0;
  for (size_t i = 0; i < place.extents.size(); ++i) {
    if (place.extents[i] < 0)
      throw LaunchError("a DLPack tensor has a negative extent");
    if (place.extents[i] == 0)
      return Memory::borrow(device, place.address, 0);
    int64_t span;
    int64_t &end = place.strides[i] < 0 ? low : high;
    if (__builtin_mul_overflow(place.extents[i] - 1, place.strides[i], &span) ||
        __builtin_add_overflow(end, span, &end))
      throw LaunchError("a DLPack tensor reaches beyond 64 bits");
  }
  const auto size = static_cast<int64_t>(place.elementBytes);
  return Memory::borrow(device, place.address + static_cast<uint64_t>(low * size),
                        static_cast<size_t>((high - low + 1) * size));
}

void throwDLPackType(int code, int bits, int lanes) {
  throw LaunchError("Sectile has no type for a DLPack tensor of type code " + std::to_string(code) +
                    " with " + std::to_string(bits) + " bits and " + std::to_string(lanes) +
                    (lanes == 1 ? " lane" : " lanes"));
}

void throwReadOnly() {
  throw LaunchError("a read-only tensor cannot become a DLManagedTensor, which cannot say so: make "
                    "it a DLManagedTensorVersioned");
}

DLPackDevice dlpackDeviceOf(const Memory &memory) {
  if (!memory.owner())
    throw LaunchError("a tensor that was made of a bare address, of which no device is known, "
                      "cannot become a DLPack tensor");
  return {memory.owner()->dlpackDevice, memory.owner()->dlpackIndex};
}

} // namespace sectile::detail
