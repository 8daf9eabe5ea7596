// Parts of tensors, for launches of a part.
#pragma once
#include <algorithm>
#include <sectile/library.h>
#include <sectile/tensor.h>

namespace sectile {

// Places of an axis.
struct Slice {
  std::int64_t first = 0, length = 0;
};
template <class T, int N> Tensor<T, N> cut(const Tensor<T, N> &tensor, int axis, const Slice &to) {
  auto extents = tensor.extents();
  extents[static_cast<std::size_t>(axis)] = to.length;
  // An address is a number where there is no memory.
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data()) +
                       static_cast<std::uintptr_t>(to.first * tensor.stride(axis)) * sizeof(T);
  return {reinterpret_cast<T *>(address), extents, tensor.strides(), tensor.memory()};
}
// One of a tensor's along its first axis.
template <class T, int N> Tensor<T, N - 1> oneOf(const Tensor<T, N> &tensor, std::int64_t index) {
  const Tensor<T, N> own = cut(tensor, 0, {index, 1});
  std::array<std::int64_t, N - 1> extents, strides;
  std::copy(own.extents().begin() + 1, own.extents().end(), extents.begin());
  std::copy(own.strides().begin() + 1, own.strides().end(), strides.begin());
  return {own.data(), extents, strides, own.memory()};
}
inline AnyTensor cut(AnyTensor tensor, int axis, const Slice &to) {
  const auto at = static_cast<std::size_t>(axis);
  tensor.extents[at] = to.length;
  tensor.address += static_cast<std::uint64_t>(to.first * tensor.strides[at]) *
                    static_cast<std::uint64_t>(size_of(tensor.dtype));
  return tensor;
}

} // namespace sectile
