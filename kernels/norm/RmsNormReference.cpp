// RMS normalisation on the host.
#include "kernels/norm/NormReferences.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <cmath>

using namespace sectile;

HostArray sectile::movedWeight(const HostArray &weight, double offset) {
  std::vector<double> numbers = weight.to_double();
  if (offset == 0 || numbers.empty())
    return weight;
  for (double &number : numbers)
    number += offset;
  return HostArray(DType::float64, weight.shape, numbers);
}

RmsNormResult sectile::rmsNormReference(const HostArray &x, const HostArray &w,
                                        const HostArray *residual, double eps,
                                        Arithmetic arithmetic) {
  return with_arithmetic(x.dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    auto h = numbers.load(x);
    const auto weight = numbers.load(w);
    if (residual) {
      const auto added = numbers.load(*residual);
      for (std::size_t i = 0; i < h.size(); ++i)
        h[i] = numbers.store(h[i] + added[i]);
    }
    const Shape rows(x.shape.begin(), x.shape.end() - 1);
    std::vector<Number> y(h.size()), rstds(static_cast<std::size_t>(elementCount(rows)));
    parallelFor(static_cast<std::int64_t>(rstds.size()), [&](std::int64_t row) {
      const auto length = static_cast<std::size_t>(x.shape.back()),
                 first = static_cast<std::size_t>(row) * length;
      Number squares = 0;
      for (std::size_t i = 0; i < length; ++i)
        squares += h[first + i] * h[first + i];
      const Number rstd =
          1 / std::sqrt(squares / static_cast<Number>(length) + static_cast<Number>(eps));
      for (std::size_t i = 0; i < length; ++i) {
        y[first + i] = h[first + i] * rstd;
        if (!weight.empty())
          y[first + i] = numbers.store(y[first + i]) * weight[i];
      }
      rstds[static_cast<std::size_t>(row)] = rstd;
    });
    return RmsNormResult{numbers.pack(numbers.result, x.shape, y),
                         residual ? numbers.pack(numbers.result, x.shape, h) : HostArray(),
                         numbers.pack(numbers.statistics, rows, rstds)};
  });
}
