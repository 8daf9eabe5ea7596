// The two arithmetics of a reference, so that each formula is written once.
#pragma once
#include "kernels/References.h"
#include <bit>
#include <cmath>
#include <vector>

namespace sectile {

// Number: what sums are kept in. store(): what happens to a value that goes through memory.
template <class T> struct NumbersOf {
  using Number = T;
  DType storage;    // of intermediate arrays
  DType result;     // of outputs
  DType statistics; // of outputs kept in higher precision (means, logarithms)

  T store(T value) const {
    switch (storage) {
    case DType::float16:
      return static_cast<T>(static_cast<float>(half(value)));
    case DType::bfloat16:
      return static_cast<T>(static_cast<float>(bfloat16(value)));
    case DType::float32:
      return static_cast<T>(static_cast<float>(value));
    default:
      return value;
    }
  }
  // None of an array that was left out.
  std::vector<T> load(const HostArray &array) const {
    if (array.data.empty())
      return {};
    std::vector<T> values(static_cast<std::size_t>(array.count()));
    withType(array.dtype, [&](auto zero) {
      auto elements = array.as<decltype(zero)>();
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<T>(elements[i]);
    });
    return values;
  }
  static HostArray pack(DType dtype, const Shape &shape, const std::vector<T> &values) {
    return HostArray(dtype, shape, std::vector<double>(values.begin(), values.end()));
  }
};

// Calls formula(NumbersOf<...>) for inputs of this dtype.
template <class Formula>
auto withArithmetic(DType dtype, Arithmetic arithmetic, Formula &&formula) {
  if (arithmetic == Arithmetic::exact)
    return formula(NumbersOf<double>{DType::float64, DType::float64, DType::float64});
  if (dtype == DType::float64)
    return formula(NumbersOf<double>{dtype, dtype, dtype});
  return formula(NumbersOf<float>{dtype, dtype, DType::float32});
}

// NaN if either is: a row of scores with a NaN in it has no largest.
template <class Number> Number largerOrNan(Number a, Number b) {
  return std::isnan(a) || a > b ? a : b;
}

// The ten bits of mantissa that a tensor core reads of a tf32 operand.
inline float truncateToTf32(float value) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & ~0x1fffu);
}

} // namespace sectile
