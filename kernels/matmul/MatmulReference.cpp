// Matrix multiplication on the host.
#include "kernels/matmul/ReferenceProducts.h"
#include <algorithm>
#include <cmath>
#include <utility>

using namespace sectile;

HostArray sectile::matmulReference(const HostArray &a, const HostArray &b,
                                   const MatmulReferenceOptions &options, Arithmetic arithmetic) {
  const std::int64_t m = a.shape[0], k = a.shape[1], n = b.shape[1];
  return with_arithmetic(a.dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    auto left = numbers.load(a), right = numbers.load(b);
    if (options.tf32 && arithmetic == Arithmetic::own)
      for (auto *values : {&left, &right})
        for (Number &value : *values)
          value = truncateToTf32(static_cast<float>(value));
    std::vector<Number> result(static_cast<std::size_t>(m * n));
    parallelFor(m, [&](std::int64_t i) {
      addProducts<Number>(rowOf(left, i, k), right.data(), rowOf(result, i, n));
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

namespace {

// Element by element, after the sums; what a chain of unfused kernels would keep in memory is
// rounded by `store`.
struct EpilogueReference {
  explicit EpilogueReference(const Invocation &call)
      : parts(epilogueParts(call)), alpha(call.options.number("alpha")),
        beta(call.options.number("beta")) {}
  EpilogueParts parts;
  double alpha, beta;

  template <class Numbers, class T>
  T operator()(const Numbers &numbers, T x, T rowScale, T columnScale, T residual, T bias) const {
    x = numbers.store(x);
    if (parts.rowScale)
      x = numbers.store(x * rowScale);
    if (parts.columnScale)
      x = numbers.store(x * columnScale);
    if (parts.scaled)
      x = numbers.store(x * static_cast<T>(alpha));
    if (parts.residual)
      x = numbers.store(x + numbers.store(static_cast<T>(beta) * residual));
    if (parts.bias)
      x = numbers.store(x + bias);
    return activate(parts.activation, x);
  }
};

} // namespace

// Inputs are a, b, bias, residual, row_scale and column_scale.
References sectile::gemmReference(const Invocation &call, std::span<const HostArray> inputs,
                                  Arithmetic arithmetic) {
  const bool batched = inputs[0].shape.size() == 3;
  const std::int64_t batch = batched ? inputs[0].shape[0] : 1;
  const std::int64_t m = call.extent("M"), k = call.extent("K"), n = call.extent("N");
  const bool promoted = arithmetic == Arithmetic::own && isFp8(inputs[0].dtype) &&
                        call.options.choice("precision") == "tf32";
  const EpilogueReference epilogue(call);
  return with_arithmetic(call.dtype("c"), arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto left = loadOperand(numbers, call, inputs[0], arithmetic),
               right = loadOperand(numbers, call, inputs[1], arithmetic),
               biases = numbers.load(inputs[2]), others = numbers.load(inputs[3]),
               rows = numbers.load(inputs[4]), columns = numbers.load(inputs[5]);
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
      const std::span<Number> out = rowOf(result, row, n);
      const std::span<const Number> factors = rowOf(left, row, k);
      const Number *other =
          right.data() + (static_cast<std::int64_t>(right.size()) == k * n ? 0 : matrix * k * n);
      if constexpr (std::is_same_v<Number, float>)
        if (promoted)
          addProductsOfFp8(factors, other, n, out);
      if (!promoted)
        addProducts<Number>(factors, other, out);
      for (std::int64_t j = 0; j < n; ++j) {
        Number &value = out[static_cast<std::size_t>(j)];
        value = epilogue(numbers, value, at(rows, matrix, m, i), at(columns, matrix, n, j),
                         at(others, matrix, batch * m * n, row * n + j), at(biases, matrix, n, j));
      }
    });
    const DType type = call.dtype("c") == DType::int32 ? DType::int32 : numbers.result;
    return References{numbers.pack(type, batched ? Shape{batch, m, n} : Shape{m, n}, result)};
  });
}
