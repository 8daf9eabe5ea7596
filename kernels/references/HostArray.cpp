// Conversions of host arrays.
#include "kernels/references/HostArray.h"
#include <algorithm>
#include <cassert>
#include <cmath>

using namespace sectile;

std::int64_t sectile::elementCount(const Shape &shape) {
  // Beside an extent of 0 the others may be too large to multiply.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end())
    return 0;
  std::int64_t count = 1;
  for (std::int64_t extent : shape)
    count *= extent;
  return count;
}

std::string sectile::toString(const Shape &shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

HostArray::HostArray(DType dtype, Shape extents)
    : dtype(dtype), shape(std::move(extents)),
      data(static_cast<std::size_t>(elementCount(shape)) * size_of(dtype)) {}

HostArray::HostArray(DType dtype, Shape extents, std::span<const double> values)
    : HostArray(dtype, std::move(extents)) {
  assign(values);
}

std::int64_t HostArray::count() const { return elementCount(shape); }

std::vector<double> HostArray::to_double() const {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(count()));
  with_type(dtype, [&](auto zero) {
    for (auto element : as<decltype(zero)>())
      values.push_back(static_cast<double>(element));
  });
  return values;
}

void HostArray::assign(std::span<const double> values) {
  assert(static_cast<std::int64_t>(values.size()) == count());
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    auto elements = as<T>();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if constexpr (std::integral<T> && !std::same_as<T, bool>)
        elements[i] = static_cast<T>(std::nearbyint(values[i]));
      else
        elements[i] = static_cast<T>(values[i]);
    }
  });
}
