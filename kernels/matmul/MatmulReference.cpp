// Matrix multiplication on the host.
#include "kernels/Parallel.h"
#include "kernels/ReferenceArithmetic.h"
#include "kernels/matmul/Gemm.h"
#include <cmath>

using namespace sectile;

HostArray sectile::matmulReference(const HostArray &a, const HostArray &b,
                                   const MatmulOptions &options, Arithmetic arithmetic) {
  const std::int64_t m = a.shape[0], k = a.shape[1], n = b.shape[1];
  return withArithmetic(a.dtype, arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    auto left = numbers.load(a), right = numbers.load(b);
    if (options.tf32 && arithmetic == Arithmetic::own)
      for (auto *values : {&left, &right})
        for (Number &value : *values)
          value = truncateToTf32(static_cast<float>(value));
    std::vector<Number> result(static_cast<std::size_t>(m * n));
    // Row by row, with the innermost loop along memory, which the compiler vectorises.
    parallelFor(m, [&](std::int64_t i) {
      Number *row = result.data() + i * n;
      for (std::int64_t p = 0; p < k; ++p) {
        const Number factor = left[static_cast<std::size_t>(i * k + p)];
        const Number *other = right.data() + p * n;
        for (std::int64_t j = 0; j < n; ++j)
          row[j] += factor * other[j];
      }
    });
    return numbers.pack(numbers.result, {m, n}, result);
  });
}

HostArray sectile::gemmReference(const Invocation &call, std::span<const HostArray> inputs,
                                 Arithmetic arithmetic) {
  const HostArray &a = inputs[0], &b = inputs[1], &bias = inputs[2], &residual = inputs[3],
                  &rowScale = inputs[4], &columnScale = inputs[5];
  const bool batched = a.shape.size() == 3;
  const std::int64_t batch = batched ? a.shape[0] : 1;
  const std::int64_t m = call.extent("M"), k = call.extent("K"), n = call.extent("N");
  const bool tf32 = arithmetic == Arithmetic::own && a.dtype == DType::float32 &&
                    call.options.choice("precision") == "tf32";
  const EpilogueReference epilogue(call);
  return withArithmetic(call.dtype("c"), arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    auto load = [&](const HostArray &array) {
      if (array.data.empty())
        return std::vector<Number>();
      auto values = numbers.load(array);
      if (tf32 && (&array == &a || &array == &b))
        for (Number &value : values)
          value = truncateToTf32(static_cast<float>(value));
      return values;
    };
    const auto left = load(a), right = load(b), biases = load(bias), others = load(residual),
               rows = load(rowScale), columns = load(columnScale);
    // Where there is one for all matrices, or none.
    auto at = [&](const std::vector<Number> &values, std::int64_t matrix, std::int64_t length,
                  std::int64_t i) {
      if (values.empty())
        return Number(0);
      const bool one = static_cast<std::int64_t>(values.size()) == length;
      return values[static_cast<std::size_t>((one ? 0 : matrix) * length + i)];
    };
    std::vector<Number> result(static_cast<std::size_t>(batch * m * n));
    parallelFor(batch * m, [&](std::int64_t row) {
      const std::int64_t matrix = row / m, i = row % m;
      Number *out = result.data() + row * n;
      const std::int64_t rightStart =
          static_cast<std::int64_t>(right.size()) == k * n ? 0 : matrix * k * n;
      for (std::int64_t p = 0; p < k; ++p) {
        const Number factor = left[static_cast<std::size_t>(row * k + p)];
        const Number *other = right.data() + rightStart + p * n;
        for (std::int64_t j = 0; j < n; ++j)
          out[j] += factor * other[j];
      }
      for (std::int64_t j = 0; j < n; ++j)
        out[j] = epilogue(numbers, out[j], at(rows, matrix, m, i), at(columns, matrix, n, j),
                          at(others, matrix, batch * m * n, row * n + j), at(biases, matrix, n, j));
    });
    const DType type = call.dtype("c") == DType::int32 ? DType::int32 : numbers.result;
    return numbers.pack(type, batched ? Shape{batch, m, n} : Shape{m, n}, result);
  });
}
