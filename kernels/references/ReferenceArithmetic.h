// What the library's references need beside the two arithmetics.
#pragma once
#include "kernels/references/References.h"
#include <bit>
#include <cmath>
#include <sectile/kernel_spec.h>

namespace sectile {

// NaN if either is: a row of scores with a NaN in it has no largest.
template <class Number> Number largerOrNan(Number a, Number b) {
  return std::isnan(a) || a > b ? a : b;
}

// The ten bits of mantissa that a tensor core reads of a tf32 operand.
inline float truncateToTf32(float value) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & ~0x1fffu);
}

// An operand of the products of a kernel with the option precision=tf32|exact.
template <class Numbers>
auto loadOperand(const Numbers &numbers, const Invocation &call, const HostArray &array,
                 Arithmetic arithmetic) {
  auto values = numbers.load(array);
  if (arithmetic == Arithmetic::own && array.dtype == DType::float32 &&
      call.options.choice("precision") == "tf32")
    for (auto &value : values)
      value = truncateToTf32(static_cast<float>(value));
  return values;
}

// The numbers of an argument of a call, with the axes that it is specified with: of its own dtype,
// or floats in double where the arithmetic is exact.
HostArray argumentArray(const Invocation &call, std::size_t argument, bool isExact,
                        const std::vector<double> &values);

// What a reference gives: the numbers of each of the call's outputs, in order, or an array as it
// is. Outputs that the call does not have are left out.
template <class Numbers, class... Values>
std::vector<HostArray> outputsOf(const Invocation &call, const Numbers &numbers,
                                 const Values &...values) {
  std::vector<HostArray> outputs;
  std::size_t argument = call.tensors.size() - sizeof...(Values);
  const auto add = [&]<class V>(const V &value) {
    if (!call.tensors[argument].present)
      outputs.emplace_back();
    else if constexpr (std::same_as<V, HostArray>)
      outputs.push_back(value);
    else
      outputs.push_back(argumentArray(call, argument, numbers.storage == DType::float64,
                                      {value.begin(), value.end()}));
    ++argument;
  };
  (add(values), ...);
  return outputs;
}

} // namespace sectile
