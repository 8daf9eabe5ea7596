// Matrix multiplication on the host.
#include "kernels/Parallel.h"
#include "kernels/ReferenceArithmetic.h"

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
