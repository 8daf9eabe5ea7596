// Memory of the C interface, and tensors of DLPack over it.
#include "capi/Handles.h"
#include "capi/Tensors.h"
#include <map>
#include <mutex>
#include <sectile/dlpack.h>

using namespace sectile;

namespace {

// What sectile_alloc() gave.
struct Allocations {
  std::mutex mutex; // guards what follows
  std::map<std::pair<const runtime::DeviceImpl *, void *>, detail::Memory> memory;

  static Allocations &get() {
    static auto *all = new Allocations; // handles may be released by static objects
    return *all;
  }
};

std::uint64_t addressOf(const void *pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

// Throws Refusal for extents that no tensor has.
std::size_t countElements(const DLTensor &tensor, const std::string &who) {
  if (tensor.ndim < 0)
    throw c::Refusal(SECTILE_INVALID, who + ": ndim is " + std::to_string(tensor.ndim));
  if (tensor.ndim && !tensor.shape)
    throw c::Refusal(SECTILE_INVALID, who + ": shape is NULL");
  std::int64_t count = 1;
  bool isEmpty = false;
  for (int i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] < 0)
      throw c::Refusal(SECTILE_INVALID, who + ": extent " + std::to_string(i) + " is " +
                                            std::to_string(tensor.shape[i]));
    isEmpty |= tensor.shape[i] == 0;
  }
  for (int i = 0; i < tensor.ndim && !isEmpty; ++i)
    if (__builtin_mul_overflow(count, tensor.shape[i], &count))
      throw c::Refusal(SECTILE_INVALID, who + " has more elements than 64 bits count");
  return isEmpty ? 0 : static_cast<std::size_t>(count);
}

DType requireDType(const DLTensor &tensor, const std::string &who) {
  if (const std::optional<DType> dtype = c::dtypeOf(tensor.dtype))
    return *dtype;
  throw c::Refusal(SECTILE_INVALID,
                   who + " has elements that Sectile has no type for: DLPack's code " +
                       std::to_string(tensor.dtype.code) + " with " +
                       std::to_string(tensor.dtype.bits) + " bits and " +
                       std::to_string(tensor.dtype.lanes) + " lanes");
}

} // namespace

std::optional<DType> c::dtypeOf(DLDataType type) {
  return type.lanes == 1 ? detail::dtypeOfDLPack(type.code, type.bits) : std::nullopt;
}

DLDataType c::typeOf(DType dtype) {
  const detail::DLPackType type = detail::dlpackTypeOf(dtype);
  return {static_cast<std::uint8_t>(type.code), static_cast<std::uint8_t>(type.bits), 1};
}

AnyTensor c::shapeOf(const DLTensor &tensor, const std::string &who) {
  countElements(tensor, who);
  AnyTensor result;
  result.dtype = requireDType(tensor, who);
  if (tensor.ndim)
    result.extents.assign(tensor.shape, tensor.shape + tensor.ndim);
  return result;
}

AnyTensor c::borrow(const Device &device, const DLTensor &tensor, const std::string &who) {
  const std::size_t count = countElements(tensor, who);
  requireDType(tensor, who);
  if (count && !tensor.data)
    throw Refusal(SECTILE_INVALID, who + ": data is NULL");
  try {
    return from_dlpack(device, tensor);
  } catch (const LaunchError &error) {
    throw Refusal(SECTILE_INVALID, who + ": " + error.what());
  }
}

extern "C" {

sectile_status sectile_alloc(sectile_device *device, size_t bytes, void **memory) {
  if (memory)
    *memory = nullptr;
  return c::guard(
      [&] {
        c::require(device, "sectile_alloc: device");
        c::require(memory, "sectile_alloc: memory");
        if (!bytes)
          return;
        detail::Memory fresh(device->device, bytes);
        void *const address = reinterpret_cast<void *>(fresh.address());
        Allocations &all = Allocations::get();
        std::lock_guard lock(all.mutex);
        all.memory.insert_or_assign({c::implOf(device), address}, std::move(fresh));
        *memory = address;
      },
      c::implOf(device));
}

sectile_status sectile_free(sectile_device *device, void *memory) {
  return c::guard(
      [&] {
        if (!memory)
          return;
        c::require(device, "sectile_free: device");
        detail::Memory freed; // outside the lock
        Allocations &all = Allocations::get();
        std::lock_guard lock(all.mutex);
        const auto found = all.memory.find({c::implOf(device), memory});
        if (found == all.memory.end())
          throw c::Refusal(SECTILE_INVALID,
                           "sectile_free: " + device->device.name() +
                               " has no memory of sectile_alloc() that begins there");
        freed = std::move(found->second);
        all.memory.erase(found);
      },
      c::implOf(device));
}

sectile_status sectile_copy(sectile_stream *stream, void *to, const void *from, size_t bytes,
                            sectile_direction direction) {
  return c::guard(
      [&] {
        c::require(stream, "sectile_copy: stream");
        if (!bytes)
          return;
        c::require(to, "sectile_copy: to");
        c::require(from, "sectile_copy: from");
        const Device device = stream->stream.device();
        switch (static_cast<int>(direction)) {
        case SECTILE_TO_DEVICE:
          return detail::Memory::borrow(device, addressOf(to), bytes).upload(from);
        case SECTILE_TO_HOST:
          return detail::Memory::borrow(device, addressOf(from), bytes).download(to);
        case SECTILE_ON_DEVICE:
          return detail::Memory::borrow(device, addressOf(to), bytes)
              .copy_from(detail::Memory::borrow(device, addressOf(from), bytes), &stream->stream);
        default:
          throw c::Refusal(SECTILE_INVALID, "sectile_copy: there is no direction " +
                                                std::to_string(static_cast<int>(direction)));
        }
      },
      c::implOf(stream));
}

sectile_status sectile_fill(sectile_stream *stream, void *memory, const void *pattern,
                            size_t pattern_bytes, size_t count) {
  return c::guard(
      [&] {
        c::require(stream, "sectile_fill: stream");
        if (pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4 && pattern_bytes != 8)
          throw c::Refusal(SECTILE_INVALID, "sectile_fill: a pattern has 1, 2, 4 or 8 bytes, not " +
                                                std::to_string(pattern_bytes));
        if (!count)
          return;
        c::require(memory, "sectile_fill: memory");
        c::require(pattern, "sectile_fill: pattern");
        std::size_t bytes = 0;
        if (__builtin_mul_overflow(pattern_bytes, count, &bytes))
          throw c::Refusal(SECTILE_INVALID, "sectile_fill: more bytes than 64 bits count");
        detail::Memory::borrow(stream->stream.device(), addressOf(memory), bytes)
            .fill(pattern, pattern_bytes, &stream->stream);
      },
      c::implOf(stream));
}

sectile_status sectile_tensor_new(sectile_device *device, const DLTensor *like,
                                  DLManagedTensorVersioned **tensor) {
  if (tensor)
    *tensor = nullptr;
  return c::guard(
      [&] {
        c::require(device, "sectile_tensor_new: device");
        c::require(like, "sectile_tensor_new: like");
        c::require(tensor, "sectile_tensor_new: tensor");
        const std::size_t count = countElements(*like, "sectile_tensor_new: like");
        AnyTensor fresh = c::shapeOf(*like, "sectile_tensor_new: like");
        std::size_t bytes = 0;
        if (__builtin_mul_overflow(count, size_of(fresh.dtype), &bytes))
          throw c::Refusal(SECTILE_INVALID, "sectile_tensor_new: more bytes than 64 bits count");
        fresh.strides.resize(fresh.extents.size());
        std::int64_t stride = 1;
        for (std::size_t i = fresh.extents.size(); i-- > 0;
             stride *= std::max<std::int64_t>(fresh.extents[i], 1))
          fresh.strides[i] = stride;
        fresh.memory = detail::Memory(device->device, bytes);
        fresh.address = fresh.memory.address();
        *tensor = to_dlpack<DLManagedTensorVersioned>(fresh);
      },
      c::implOf(device));
}

sectile_status sectile_tensor_dense(const DLTensor *tensor, int *is_dense) {
  return c::guard([&] {
    c::require(tensor, "sectile_tensor_dense: tensor");
    c::require(is_dense, "sectile_tensor_dense: is_dense");
    const std::size_t count = countElements(*tensor, "sectile_tensor_dense: tensor");
    bool dense = true;
    std::int64_t stride = 1;
    for (int i = tensor->ndim; i-- > 0 && count && tensor->strides; stride *= tensor->shape[i])
      dense &= tensor->shape[i] == 1 || tensor->strides[i] == stride;
    *is_dense = dense;
  });
}

size_t sectile_tensor_bytes(const DLTensor *tensor) {
  std::size_t bytes = 0;
  const sectile_status status = c::guard([&] {
    c::require(tensor, "sectile_tensor_bytes: tensor");
    const std::size_t bits = std::size_t{tensor->dtype.bits} * tensor->dtype.lanes;
    const std::size_t count = countElements(*tensor, "sectile_tensor_bytes: tensor");
    std::size_t all = 0;
    if (!__builtin_mul_overflow(count, bits, &all))
      bytes = all / 8 + (all % 8 != 0);
  });
  return status == SECTILE_OK ? bytes : 0;
}

} // extern "C"
