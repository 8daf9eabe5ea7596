// Softmax on the host.
#include "kernels/Parallel.h"
#include "kernels/ReferenceArithmetic.h"
#include <cmath>
#include <limits>

using namespace sectile;

HostArray sectile::softmaxReference(const HostArray &x, Arithmetic arithmetic) {
  return withArithmetic(x.dtype, arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    auto values = numbers.load(x);
    const std::int64_t length = x.shape.back();
    parallelFor(length ? x.count() / length : 0, [&](std::int64_t row) {
      Number *p = values.data() + row * length;
      Number largest = -std::numeric_limits<Number>::infinity(), sum = 0;
      for (std::int64_t i = 0; i < length; ++i)
        largest = std::max(largest, p[i]);
      for (std::int64_t i = 0; i < length; ++i)
        sum += p[i] = std::exp(numbers.store(p[i] - largest));
      for (std::int64_t i = 0; i < length; ++i)
        p[i] = numbers.store(p[i]) / sum;
    });
    return numbers.pack(numbers.result, x.shape, values);
  });
}
