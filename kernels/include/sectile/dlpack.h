// Tensors of other libraries, as DLPack describes them, for the library's kernels, and ours for
// them. DLPack's header is not needed here: types are known by their members.
#pragma once
#include <sectile/argument.h>
#include <sectile/library.h>

namespace sectile {

namespace detail {

// DLManagedTensor or DLManagedTensorVersioned.
template <class M>
concept DLPackManaged = requires(M &managed) {
  requires DLPackTensor<std::remove_reference_t<decltype(managed.dl_tensor)>>;
  managed.manager_ctx;
  managed.deleter(&managed);
};

inline constexpr std::uint64_t dlpackReadOnly = 1; // of a versioned tensor's flags

struct DLPackType {
  int code, bits;
};
DLPackType dlpackTypeOf(DType dtype);
struct DLPackDevice {
  int kind, index;
};
DLPackDevice dlpackDeviceOf(const Memory &memory);
// A DLPack tensor's memory, after a check that the device is its own.
struct DLPackPlace {
  int kind, index;
  std::uint64_t address;
  const std::vector<std::int64_t> &extents, &strides;
  std::size_t elementBytes;
};
Memory borrowDLPack(const Device &device, const DLPackPlace &place);
[[noreturn]] void throwDLPackType(int code, int bits, int lanes);
[[noreturn]] void throwReadOnly();

} // namespace detail

// A tensor in the memory of a DLTensor of the device, of any strides. The memory stays its owner's,
// who must keep it until the work on it is done. Throws LaunchError where the DLTensor is on
// another device, or has elements that Sectile has no type for.
template <detail::DLPackTensor D> AnyTensor from_dlpack(const Device &device, const D &tensor) {
  const auto dtype = tensor.dtype.lanes == 1
                         ? detail::dtypeOfDLPack(tensor.dtype.code, tensor.dtype.bits)
                         : std::nullopt;
  if (!dtype)
    detail::throwDLPackType(tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes);
  AnyTensor result;
  result.dtype = *dtype;
  result.address = detail::dlpackAddress(tensor);
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  result.extents.resize(rank);
  result.strides.resize(rank);
  std::int64_t stride = 1;
  for (std::size_t i = rank; i-- > 0; stride *= tensor.shape[i]) { // No strides: row-major order.
    result.extents[i] = tensor.shape[i];
    result.strides[i] = tensor.strides ? tensor.strides[i] : stride;
  }
  result.memory =
      detail::borrowDLPack(device, {static_cast<int>(tensor.device.device_type),
                                    static_cast<int>(tensor.device.device_id), result.address,
                                    result.extents, result.strides, size_of(result.dtype)});
  return result;
}

// The same of a managed tensor, whose deleter stays the caller's to call. Only versioned ones can
// say that they are read-only.
template <detail::DLPackManaged M> AnyTensor from_dlpack(const Device &device, const M &managed) {
  AnyTensor result = from_dlpack(device, managed.dl_tensor);
  if constexpr (requires { managed.flags; })
    result.read_only = managed.flags & detail::dlpackReadOnly;
  return result;
}

// A managed tensor in the tensor's memory, which it keeps until its deleter is called, by whoever
// takes it. M is DLManagedTensor or DLManagedTensorVersioned. DLPack says nothing of work under
// way: synchronize the stream that writes the tensor, or order the consumer's stream after it.
// Throws LaunchError where the tensor was made of a bare address, has elements that DLPack has no
// type for, or is read-only and M cannot say so.
template <detail::DLPackManaged M> M *to_dlpack(const AnyTensor &tensor) {
  struct Kept {
    AnyTensor tensor;
    M managed;
  };
  constexpr bool hasFlags = requires(M managed) { managed.flags; };
  if (tensor.read_only && !hasFlags)
    detail::throwReadOnly();
  const detail::DLPackType type = detail::dlpackTypeOf(tensor.dtype);
  const detail::DLPackDevice device = detail::dlpackDeviceOf(tensor.memory);
  auto *const kept = new Kept{tensor, M{}};
  M &managed = kept->managed;
  auto &out = managed.dl_tensor;
  out.data = reinterpret_cast<void *>(tensor.address);
  out.device.device_type = static_cast<decltype(out.device.device_type)>(device.kind);
  out.device.device_id = device.index;
  out.ndim = static_cast<decltype(out.ndim)>(tensor.extents.size());
  out.dtype.code = static_cast<decltype(out.dtype.code)>(type.code);
  out.dtype.bits = static_cast<decltype(out.dtype.bits)>(type.bits);
  out.dtype.lanes = 1;
  out.shape = kept->tensor.extents.data();
  out.strides = kept->tensor.strides.data();
  out.byte_offset = 0;
  managed.manager_ctx = kept;
  managed.deleter = [](M *self) { delete static_cast<Kept *>(self->manager_ctx); };
  if constexpr (requires { managed.version.major; })
    managed.version.major = 1;
  if constexpr (hasFlags)
    managed.flags = tensor.read_only ? detail::dlpackReadOnly : 0;
  return &managed;
}

} // namespace sectile
