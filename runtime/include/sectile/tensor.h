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

  operator Tensor<const T, N>() const
    requires(!std::is_const_v<T>)
  {
    return {data_, extents_, strides_, memory_};
  }

private:
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
