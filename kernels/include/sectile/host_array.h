// HostArray: an array of any element type in host memory, dense and in row-major order. Files hold
// them, and references compute on them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <sectile/types.h>
#include <span>
#include <string>
#include <vector>

namespace sectile {

using Shape = std::vector<std::int64_t>;

struct HostArray {
  DType dtype = DType::float32;
  Shape shape;
  std::vector<std::byte> data;

  HostArray() = default;
  HostArray(DType dtype, Shape shape);                                 // zeros
  HostArray(DType dtype, Shape shape, std::span<const double> values); // as assign() does

  std::int64_t count() const; // of elements
  // The elements. T must be the type that dtype names: it is not checked.
  template <Element T> std::span<T> as() {
    return {reinterpret_cast<T *>(data.data()), data.size() / sizeof(T)};
  }
  template <Element T> std::span<const T> as() const {
    return {reinterpret_cast<const T *>(data.data()), data.size() / sizeof(T)};
  }
  // All elements converted; integers beyond 2^53 lose their last bits.
  std::vector<double> to_double() const;
  // Takes one value for each element and rounds it once, to nearest even.
  void assign(std::span<const double> values);
};

// Calls function(T{}) with the C++ type of dtype.
template <class Function> decltype(auto) with_type(DType dtype, Function &&function) {
  switch (dtype) {
  case DType::boolean:
    return function(bool{});
  case DType::int8:
    return function(std::int8_t{});
  case DType::int16:
    return function(std::int16_t{});
  case DType::int32:
    return function(std::int32_t{});
  case DType::int64:
    return function(std::int64_t{});
  case DType::uint8:
    return function(std::uint8_t{});
  case DType::uint16:
    return function(std::uint16_t{});
  case DType::uint32:
    return function(std::uint32_t{});
  case DType::uint64:
    return function(std::uint64_t{});
  case DType::float8_e4m3:
    return function(float8_e4m3(0.0f));
  case DType::float8_e5m2:
    return function(float8_e5m2(0.0f));
  case DType::float8_e4m3fnuz:
    return function(float8_e4m3fnuz(0.0f));
  case DType::float8_e5m2fnuz:
    return function(float8_e5m2fnuz(0.0f));
  case DType::float8_e4m3b11fnuz:
    return function(float8_e4m3b11fnuz(0.0f));
  case DType::float16:
    return function(half(0.0f));
  case DType::bfloat16:
    return function(bfloat16(0.0f));
  case DType::float32:
    return function(float{});
  case DType::float64:
    break;
  }
  return function(double{});
}

} // namespace sectile
