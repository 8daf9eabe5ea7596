// Sequences that lie one behind the other in an array, for references that do each by itself.
#pragma once
#include <algorithm>
#include <cstring>
#include <sectile/host_array.h>
#include <sectile/reference.h>

namespace sectile::packed {

// Calls copy(whole, part, bytes) for the pieces of a packed [T, H, D] array and of elements [first,
// first + length) of it as [1, H, length, D]; `rows`: of a packed [H, T, D] instead.
template <class Copy>
void pieces(const Shape &shape, std::size_t elementSize, bool rows, std::int64_t first,
            std::int64_t length, std::int64_t width, Copy &&copy) {
  const std::int64_t heads = shape[rows ? 0 : 1], all = shape[rows ? 1 : 0], columns = shape[2];
  const std::int64_t shared = std::min(width, columns);
  if (shared == 0) // of an array that is not there
    return;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t t = 0; t < length; ++t) {
      const std::int64_t whole = rows ? h * all + first + t : (first + t) * heads + h;
      copy(static_cast<std::size_t>(whole * columns) * elementSize,
           static_cast<std::size_t>((h * length + t) * width) * elementSize,
           static_cast<std::size_t>(shared) * elementSize);
    }
}

// As [1, H, length, width]; columns that there are not are zero.
inline HostArray part(const HostArray &packed, bool rows, std::int64_t first, std::int64_t length,
                      std::int64_t width) {
  HostArray result(packed.dtype, {1, packed.shape[rows ? 0 : 1], length, width});
  pieces(packed.shape, size_of(packed.dtype), rows, first, length, width,
         [&](std::size_t from, std::size_t to, std::size_t bytes) {
           std::memcpy(result.data.data() + to, packed.data.data() + from, bytes);
         });
  return result;
}
inline void put(HostArray &packed, bool rows, std::int64_t first, const HostArray &part) {
  pieces(packed.shape, size_of(packed.dtype), rows, first, part.shape[2], part.shape[3],
         [&](std::size_t to, std::size_t from, std::size_t bytes) {
           std::memcpy(packed.data.data() + to, part.data.data() + from, bytes);
         });
}

inline HostArray part(const HostArray &packed, std::int64_t first, std::int64_t length) {
  return part(packed, false, first, length, packed.shape[2]);
}

inline HostArray reshaped(HostArray array, Shape shape) {
  array.shape = std::move(shape);
  return array;
}

inline DType resultOf(const HostArray &q, Arithmetic arithmetic) {
  return arithmetic == Arithmetic::exact ? DType::float64 : q.dtype;
}
inline DType statisticsOf(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::exact ? DType::float64 : DType::float32;
}

} // namespace sectile::packed
