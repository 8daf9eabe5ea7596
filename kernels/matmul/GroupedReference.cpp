// Grouped matrix products on the host.
#include "kernels/ReferenceArithmetic.h"
#include "kernels/matmul/Gemm.h"

using namespace sectile;

namespace {

// Calls body(group, row) for each row that belongs to a group.
template <class Body> void forRows(const HostArray &sizes, std::int64_t rows, Body &&body) {
  std::int64_t row = 0;
  const auto lengths = sizes.as<std::int32_t>();
  for (std::size_t group = 0; group < lengths.size(); ++group)
    for (std::int32_t i = 0; i < lengths[group] && row < rows; ++i)
      body(static_cast<std::int64_t>(group), row++);
}

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

} // namespace

HostArray sectile::groupedMatmulReference(const Invocation &call, std::span<const HostArray> inputs,
                                          Arithmetic arithmetic) {
  const std::int64_t m = call.extent("M"), k = call.extent("K"), n = call.extent("N");
  return with_arithmetic(call.dtype("c"), arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    const auto left = loadOperand(numbers, call, inputs[0], arithmetic),
               right = loadOperand(numbers, call, inputs[1], arithmetic);
    std::vector<Number> result(static_cast<std::size_t>(m * n));
    forRows(inputs[2], m, [&](std::int64_t group, std::int64_t row) {
      Number *out = result.data() + row * n;
      for (std::int64_t p = 0; p < k; ++p) {
        const Number factor = left[static_cast<std::size_t>(row * k + p)];
        const Number *other = right.data() + (group * k + p) * n;
        for (std::int64_t j = 0; j < n; ++j)
          out[j] += factor * other[j];
      }
    });
    return numbers.pack(numbers.result, {m, n}, result);
  });
}

HostArray sectile::groupedMatmulDrhsReference(const Invocation &call,
                                              std::span<const HostArray> inputs,
                                              Arithmetic arithmetic) {
  const std::int64_t m = call.extent("M"), k = call.extent("K"), n = call.extent("N"),
                     groups = call.extent("G");
  return with_arithmetic(call.dtype("drhs"), arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    const auto left = loadOperand(numbers, call, inputs[0], arithmetic),
               right = loadOperand(numbers, call, inputs[2], arithmetic);
    std::vector<Number> result(static_cast<std::size_t>(groups * k * n));
    forRows(inputs[1], m, [&](std::int64_t group, std::int64_t row) {
      for (std::int64_t p = 0; p < k; ++p) {
        const Number factor = left[static_cast<std::size_t>(row * k + p)];
        Number *out = result.data() + (group * k + p) * n;
        for (std::int64_t j = 0; j < n; ++j)
          out[j] += factor * right[static_cast<std::size_t>(row * n + j)];
      }
    });
    return numbers.pack(numbers.result, {groups, k, n}, result);
  });
}
