// Tensor<T, N>: device memory with extents and strides, what a kernel's View<T, N> is made of.
#pragma once
#include <array>
#include <concepts>
#include <sectile/buffer.h>
#include <utility>

namespace sectile {

namespace detail {

// An integer of any type, in a list of extents or strides.
struct Length {
  std::int64_t value;
  template <std::integral I> constexpr Length(I value) : value(static_cast<std::int64_t>(value)) {}
};

// Throws LaunchError unless every element lies in a buffer of `size` elements.
void checkTensor(const std::int64_t *extents, const std::int64_t *strides, int rank,
                 std::size_t size);

// A tensor without its type, for copies.
struct TensorPlace {
  const Memory &memory;
  std::uint64_t address;
  const std::int64_t *extents, *strides;
  int rank;
  std::size_t elementBytes;
};
// These throw LaunchError where the tensor has no device or does not lie in its memory.
std::size_t countElements(const TensorPlace &place);
void downloadTensor(const TensorPlace &place, void *target);
void uploadTensor(const TensorPlace &place, const void *source);
// Memory on the device with all from the tensor's lowest to its highest element; `address` becomes
// that of its first one there.
Memory copyTensor(const TensorPlace &place, const Device &device, std::uint64_t &address);

[[noreturn]] void throwElementsMismatch(const char *what, const TensorPlace &place,
                                        std::size_t given);

} // namespace detail

// Extents and strides count elements. A handle on its memory, like Buffer.
template <Element T, int N> class Tensor {
  static_assert(N >= 1);

public:
  using Lengths = std::array<std::int64_t, N>;

  Tensor(T *data, const Lengths &extents, const Lengths &strides, detail::Memory memory = {})
      : data_(data), extents_(extents), strides_(strides), memory_(std::move(memory)) {}

  T *data() const { return data_; }
  std::int64_t extent(int axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  std::int64_t stride(int axis) const { return strides_[static_cast<std::size_t>(axis)]; }
  const Lengths &extents() const { return extents_; }
  const Lengths &strides() const { return strides_; }
  const detail::Memory &memory() const { return memory_; }

  // Axis i of the result is axis order[i] of this.
  Tensor permute(const std::array<int, N> &order) const {
    Tensor result = *this;
    for (std::size_t i = 0; i < N; ++i) {
      result.extents_[i] = extent(order[i]);
      result.strides_[i] = stride(order[i]);
    }
    return result;
  }
  Tensor transpose() const
    requires(N == 2)
  {
    return permute({1, 0});
  }

  // The elements in row-major order of the extents, whatever the strides. Waits for all work that
  // the device's streams had before, like Buffer::download. Here and in upload() and to(),
  // LaunchError where the tensor was made of a bare address, of which no device is known, or has
  // elements outside its memory; DeviceError for a number of elements that is not the tensor's.
  std::vector<std::remove_const_t<T>> download() const {
    using Plain = std::remove_const_t<T>;
    if constexpr (std::same_as<Plain, bool>) {
      std::vector<unsigned char> bytes(detail::countElements(place()));
      detail::downloadTensor(place(), bytes.data());
      return {bytes.begin(), bytes.end()};
    } else {
      std::vector<Plain> values(detail::countElements(place()));
      detail::downloadTensor(place(), values.data());
      return values;
    }
  }
  void download(std::span<std::remove_const_t<T>> target) const {
    if (target.size() != detail::countElements(place()))
      detail::throwElementsMismatch("download", place(), target.size());
    detail::downloadTensor(place(), target.data());
  }
  // Takes the elements in that order, and waits likewise. If others lie between the tensor's, these
  // are read and written back: nothing may write them meanwhile. LaunchError where elements share
  // memory, as with a stride of 0.
  void upload(std::span<const std::remove_const_t<T>> source) const
    requires(!std::is_const_v<T>)
  {
    if (source.size() != detail::countElements(place()))
      detail::throwElementsMismatch("upload", place(), source.size());
    detail::uploadTensor(place(), source.data());
  }
  void upload(const std::vector<bool> &source) const
    requires std::same_as<T, bool>
  {
    if (source.size() != detail::countElements(place()))
      detail::throwElementsMismatch("upload", place(), source.size());
    const std::vector<unsigned char> bytes(source.begin(), source.end());
    detail::uploadTensor(place(), bytes.data());
  }
  // A copy in new memory of a device, this one or another, with the same extents and strides. It is
  // ordered as Buffer::copy_from is.
  Tensor<std::remove_const_t<T>, N> to(const Device &device) const {
    std::uint64_t address = 0;
    detail::Memory memory = detail::copyTensor(place(), device, address);
    return {reinterpret_cast<std::remove_const_t<T> *>(address), extents_, strides_,
            std::move(memory)};
  }

  operator Tensor<const T, N>() const
    requires(!std::is_const_v<T>)
  {
    return {data_, extents_, strides_, memory_};
  }

private:
  detail::TensorPlace place() const {
    return {memory_,  reinterpret_cast<std::uintptr_t>(data_), extents_.data(), strides_.data(), N,
            sizeof(T)};
  }

  T *data_;
  Lengths extents_, strides_;
  detail::Memory memory_; // of no device where the tensor was made of a bare address
};

// The buffer's elements in row-major order.
template <Element T, std::size_t N>
Tensor<T, static_cast<int>(N)> tensor(const Buffer<T> &buffer, const detail::Length (&extents)[N]) {
  std::array<std::int64_t, N> lengths, strides;
  std::int64_t stride = 1;
  for (std::size_t i = N; i-- > 0; stride *= lengths[i]) {
    lengths[i] = extents[i].value;
    strides[i] = stride;
  }
  detail::checkTensor(lengths.data(), strides.data(), static_cast<int>(N), buffer.size());
  return {buffer.data(), lengths, strides, buffer.memory()};
}

// Element (i, j, …) is the buffer's element i · strides[0] + j · strides[1] + …
template <Element T, std::size_t N>
Tensor<T, static_cast<int>(N)> tensor(const Buffer<T> &buffer, const detail::Length (&extents)[N],
                                      const detail::Length (&strides)[N]) {
  std::array<std::int64_t, N> lengths, steps;
  for (std::size_t i = 0; i < N; ++i) {
    lengths[i] = extents[i].value;
    steps[i] = strides[i].value;
  }
  detail::checkTensor(lengths.data(), steps.data(), static_cast<int>(N), buffer.size());
  return {buffer.data(), lengths, steps, buffer.memory()};
}

} // namespace sectile
