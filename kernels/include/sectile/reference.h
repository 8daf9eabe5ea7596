// with_arithmetic(): the two arithmetics of a reference, so that a formula is written once.
#pragma once
#include <cmath>
#include <sectile/host_array.h>
#include <vector>

namespace sectile {

// The numbers that a reference computes with.
enum class Arithmetic {
  exact, // float64 throughout; results are float64
  own,   // the kernel's own dtypes: sums in float, every intermediate array rounded to the inputs'
         // type, as a chain of unfused kernels would. How far this is from `exact` says what
         // accuracy can be asked of a kernel.
};

// One of the two. Number is the type of sums; store() rounds a value as memory does.
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
  static T number(double value) { return static_cast<T>(value); }
  // The elements; none if the caller left the array out.
  std::vector<T> load(const HostArray &array) const {
    if (array.data.empty())
      return {};
    std::vector<T> values(static_cast<std::size_t>(array.count()));
    with_type(array.dtype, [&](auto zero) {
      auto elements = array.as<decltype(zero)>();
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<T>(elements[i]);
    });
    return values;
  }
  // The opposite. `dtype` is one of the three above.
  static HostArray pack(DType dtype, const Shape &shape, const std::vector<T> &values) {
    return HostArray(dtype, shape, std::vector<double>(values.begin(), values.end()));
  }
};

// Calls formula(NumbersOf<double>) or formula(NumbersOf<float>) for inputs of this dtype, and gives
// its result.
template <class Formula>
auto with_arithmetic(DType dtype, Arithmetic arithmetic, Formula &&formula) {
  if (arithmetic == Arithmetic::exact)
    return formula(NumbersOf<double>{DType::float64, DType::float64, DType::float64});
  if (dtype == DType::float64)
    return formula(NumbersOf<double>{dtype, dtype, dtype});
  return formula(NumbersOf<float>{dtype, dtype, DType::float32});
}

} // namespace sectile
