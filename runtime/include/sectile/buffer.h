// Buffer<T>: device memory with its element type. A handle with shared ownership: copies and slices
// name the same memory, which is freed with the last of them.
#pragma once
#include <sectile/device.h>
#include <sectile/stream.h>

namespace sectile {

namespace detail {

// Host memory that a device copies from and to.
class HostMemory {
public:
  HostMemory() = default;
  HostMemory(const Device &device, std::size_t bytes);

  void *data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  const std::shared_ptr<void> &allocation() const { return allocation_; }

private:
  std::shared_ptr<void> allocation_;
  void *data_ = nullptr;
  std::size_t bytes_ = 0;
};

// A stretch of device memory without a type. Every function here throws DeviceError when the device
// fails.
class Memory {
public:
  Memory() = default;
  Memory(const Device &device, std::size_t bytes);
  // Another owner's memory on the device, who has to keep it while it is used.
  static Memory borrow(const Device &device, std::uint64_t address, std::size_t bytes);

  std::uint64_t address() const { return address_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const;
  const runtime::DeviceImpl *owner() const { return owner_; } // null where nothing was allocated
  Memory slice(std::size_t offset, std::size_t bytes) const;

  void upload(
      const void *source) const; // these two wait for all that was launched on the device's streams
  void download(void *target) const;
  // These two are work in the stream. They keep the host memory until it is done.
  void upload(const HostMemory &source, const Stream &stream) const;
  void download(const HostMemory &target, const Stream &stream) const;
  void copy_from(const Memory &source, const Stream *stream) const;
  void fill(const void *pattern, std::size_t patternBytes, const Stream *stream) const;

private:
  std::shared_ptr<void> allocation_; // frees the memory, keeps the device
  const runtime::DeviceImpl *owner_ = nullptr;
  std::uint64_t address_ = 0;
  std::size_t bytes_ = 0;
};

[[noreturn]] void throwSizeMismatch(const char *what, std::size_t have, std::size_t given);

} // namespace detail

// Host memory that a device copies from and to while the host goes on: it is pinned. A handle:
// copies name the same memory.
template <Element T> class HostBuffer {
public:
  using value_type = T;

  HostBuffer() = default; // empty

  T *data() const { return static_cast<T *>(memory_.data()); }
  std::size_t size() const { return memory_.bytes() / sizeof(T); }
  bool empty() const { return memory_.bytes() == 0; }
  T *begin() const { return data(); }
  T *end() const { return data() + size(); }
  T &operator[](std::size_t i) const { return data()[i]; }

  explicit HostBuffer(detail::HostMemory memory) : memory_(std::move(memory)) {}
  const detail::HostMemory &memory() const { return memory_; }

private:
  detail::HostMemory memory_;
};

template <Element T> class Buffer {
  static_assert(!std::is_const_v<T>,
                "a buffer owns its elements: write Buffer<T>; kernels take it as Ptr<const T> too");

public:
  using value_type = T;

  Buffer() = default; // empty, on no device

  T *data() const { return reinterpret_cast<T *>(memory_.address()); } // an address on the device
  std::size_t size() const { return memory_.bytes() / sizeof(T); }
  std::size_t size_bytes() const { return memory_.bytes(); }
  bool empty() const { return memory_.bytes() == 0; }
  Device device() const { return memory_.device(); }

  std::vector<T> download() const {
    if constexpr (std::same_as<T, bool>) {
      std::vector<unsigned char> bytes(size());
      memory_.download(bytes.data());
      return {bytes.begin(), bytes.end()};
    } else {
      std::vector<T> values(size());
      memory_.download(values.data());
      return values;
    }
  }
  void download(std::span<T> target) const {
    if (target.size() != size())
      detail::throwSizeMismatch("download", size(), target.size());
    memory_.download(target.data());
  }
  void upload(std::span<const T> source) const {
    if (source.size() != size())
      detail::throwSizeMismatch("upload", size(), source.size());
    memory_.upload(source.data());
  }

  void upload(const std::vector<bool> &source) const
    requires std::same_as<T, bool>
  {
    if (source.size() != size())
      detail::throwSizeMismatch("upload", size(), source.size());
    const std::vector<unsigned char> bytes(source.begin(), source.end());
    memory_.upload(bytes.data());
  }

  // These two are work in the stream, and do not wait. The host must leave the elements alone until
  // it is done.
  void upload(const HostBuffer<T> &source, const Stream &stream) const {
    if (source.size() != size())
      detail::throwSizeMismatch("upload", size(), source.size());
    memory_.upload(source.memory(), stream);
  }
  void download(const HostBuffer<T> &target, const Stream &stream) const {
    if (target.size() != size())
      detail::throwSizeMismatch("download", size(), target.size());
    memory_.download(target.memory(), stream);
  }

  // Elements first … first + count - 1, of the same memory.
  Buffer slice(std::size_t first, std::size_t count) const {
    if (first > size() || count > size() - first)
      detail::throwSizeMismatch("slice", size(), first + count);
    return Buffer(memory_.slice(first * sizeof(T), count * sizeof(T)));
  }

  // These three go to the device's own stream, or to the stream given, and do not wait.
  void copy_from(const Buffer &source) const { copy(source, nullptr); }
  void copy_from(const Buffer &source, const Stream &stream) const { copy(source, &stream); }
  void fill(T value) const { memory_.fill(&value, sizeof(T), nullptr); }
  void fill(T value, const Stream &stream) const { memory_.fill(&value, sizeof(T), &stream); }
  // Fills with what no kernel should leave behind: 0xFF in every byte of a float, which is NaN in
  // all types except the fnuz ones, 0xCB in every byte of an integer, true in a bool.
  void poison() const {
    const unsigned char byte = is_floating(dtype_of<T>) ? 0xff : std::same_as<T, bool> ? 1 : 0xcb;
    memory_.fill(&byte, 1, nullptr);
  }

  explicit Buffer(detail::Memory memory) : memory_(std::move(memory)) {}
  const detail::Memory &memory() const { return memory_; }

private:
  void copy(const Buffer &source, const Stream *stream) const {
    if (source.size() != size())
      detail::throwSizeMismatch("copy", size(), source.size());
    memory_.copy_from(source.memory_, stream);
  }

  detail::Memory memory_;
};

template <Element T> Buffer<T> Device::allocate(std::size_t count) const {
  if (count > static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(T))
    throw DeviceError(name() + ": a buffer of " + std::to_string(count) +
                      " elements is beyond any memory");
  return Buffer<T>(detail::Memory(*this, count * sizeof(T)));
}

template <Element T> HostBuffer<T> Device::allocate_host(std::size_t count) const {
  if (count > static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(T))
    throw DeviceError(name() + ": a host buffer of " + std::to_string(count) +
                      " elements is beyond any memory");
  return HostBuffer<T>(detail::HostMemory(*this, count * sizeof(T)));
}

template <detail::HostRange R>
Buffer<detail::HostElement<R>> Device::upload(const R &values) const {
  using T = detail::HostElement<R>;
  const std::span<const T> source(values);
  Buffer<T> buffer = allocate<T>(source.size());
  buffer.upload(source);
  return buffer;
}
inline Buffer<bool> Device::upload(const std::vector<bool> &values) const {
  Buffer<bool> buffer = allocate<bool>(values.size());
  buffer.upload(values);
  return buffer;
}

} // namespace sectile
