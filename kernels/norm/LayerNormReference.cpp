// Layer normalisation on the host.
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <cmath>

using namespace sectile;

LayerNormResult sectile::layerNormReference(const HostArray &x, const HostArray &w,
                                            const HostArray &b, double eps, Arithmetic arithmetic) {
  return with_arithmetic(x.dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    auto values = numbers.load(x), weight = numbers.load(w), bias = numbers.load(b);
    const std::int64_t length = x.shape.back();
    const Shape rows(x.shape.begin(), x.shape.end() - 1);
    std::vector<Number> means(static_cast<std::size_t>(elementCount(rows))), rstds(means.size());
    parallelFor(static_cast<std::int64_t>(means.size()), [&](std::int64_t row) {
      Number *p = values.data() + row * length;
      Number mean = 0, variance = 0;
      for (std::int64_t i = 0; i < length; ++i)
        mean += p[i];
      mean /= static_cast<Number>(length);
      for (std::int64_t i = 0; i < length; ++i)
        variance += (p[i] - mean) * (p[i] - mean);
      variance /= static_cast<Number>(length);
      Number rstd = 1 / std::sqrt(variance + static_cast<Number>(eps));
      for (std::int64_t i = 0; i < length; ++i) {
        auto at = static_cast<std::size_t>(i);
        p[i] = (p[i] - mean) * rstd;
        if (!weight.empty())
          p[i] = numbers.store(p[i]) * weight[at];
        if (!bias.empty())
          p[i] = numbers.store(p[i]) + bias[at];
      }
      means[static_cast<std::size_t>(row)] = mean;
      rstds[static_cast<std::size_t>(row)] = rstd;
    });
    return LayerNormResult{numbers.pack(numbers.result, x.shape, values),
                           numbers.pack(numbers.statistics, rows, means),
                           numbers.pack(numbers.statistics, rows, rstds)};
  });
}
