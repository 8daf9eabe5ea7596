// Matrix multiplication on the host.
#include "kernels/Parallel.h"
#include "kernels/ReferenceArithmetic.h"
#include "kernels/matmul/Gemm.h"
#include <algorithm>
#include <cmath>
#include <utility>

using namespace sectile;

HostArray sectile::matmulReference(const HostArray &a, const HostArray &b,
                                   const MatmulOptions &options, Arithmetic arithmetic) {
  const std::int64_t m = a.shape[0], k = a.shape[1], n = b.shape[1];
  return with_arithmetic(a.dtype, arithmetic, [&](auto numbers) {
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

// The last bit that a sum keeps whose largest term this is; 0 where it is no number.
static float lastBitBeside(float largest) {
  constexpr int kept = 13; // behind the first one
  if (!std::isfinite(largest))
    return 0;
  return std::ldexp(1.0f, std::ilogb(std::max(largest, 0x1p-64f)) - kept);
}

static float cutTo(float last, float value) {
  return last == 0 ? value : std::trunc(value / last) * last;
}

void sectile::addProductsOfFp8(std::span<const float> row, const float *columns,
                               std::int64_t stride, std::span<float> sums) {
  constexpr std::size_t group = 128, step = 32;
  const std::size_t n = sums.size();
  std::vector<float> partial(n), last(n);
  auto forEach = [&](std::size_t from, std::size_t to, auto &&use) {
    for (std::size_t p = from; p < to; ++p)
      for (std::size_t j = 0; j < n; ++j)
        use(j,
            row[p] * columns[static_cast<std::int64_t>(p) * stride + static_cast<std::int64_t>(j)]);
  };
  for (std::size_t p = 0; p < row.size(); p += step) {
    const std::size_t end = std::min(p + step, row.size());
    for (std::size_t j = 0; j < n; ++j)
      last[j] = std::abs(partial[j]);
    forEach(p, end,
            [&](std::size_t j, float product) { last[j] = std::max(last[j], std::abs(product)); });
    for (std::size_t j = 0; j < n; ++j) {
      last[j] = lastBitBeside(last[j]);
      partial[j] = cutTo(last[j], partial[j]);
    }
    forEach(p, end, [&](std::size_t j, float product) { partial[j] += cutTo(last[j], product); });
    for (float &sum : partial)
      sum = cutTo(lastBitBeside(std::abs(sum)), sum);
    if (end % group != 0 && end != row.size())
      continue;
    for (std::size_t j = 0; j < n; ++j)
      sums[j] += std::exchange(partial[j], 0.0f);
  }
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
  const bool promoted =
      arithmetic == Arithmetic::own && isFp8(a.dtype) && call.options.choice("precision") == "tf32";
  const EpilogueReference epilogue(call);
  return with_arithmetic(call.dtype("c"), arithmetic, [&](auto numbers) {
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
      if constexpr (std::is_same_v<Number, float>)
        if (promoted)
          addProductsOfFp8(std::span(left).subspan(static_cast<std::size_t>(row * k),
                                                   static_cast<std::size_t>(k)),
                           right.data() + rightStart, n, {out, static_cast<std::size_t>(n)});
      for (std::int64_t p = 0; p < k && !promoted; ++p) {
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
