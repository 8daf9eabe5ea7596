// Softmax and log-softmax on the host.
#include "kernels/norm/NormReferences.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace sectile;

// Of each row what `finish` makes of every element's distance from the largest and of the sum of
// the distances' exponentials.
template <class Finish>
static HostArray ofDistances(const HostArray &x, Arithmetic arithmetic, Finish finish) {
  return with_arithmetic(x.dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    auto values = numbers.load(x);
    const std::int64_t length = x.shape.back();
    parallelFor(length ? x.count() / length : 0, [&](std::int64_t row) {
      Number *p = values.data() + row * length;
      Number largest = -std::numeric_limits<Number>::infinity(), sum = 0;
      for (std::int64_t i = 0; i < length; ++i)
        largest = std::max(largest, p[i]);
      for (std::int64_t i = 0; i < length; ++i) {
        p[i] = numbers.store(p[i] - largest);
        sum += std::exp(p[i]);
      }
      for (std::int64_t i = 0; i < length; ++i)
        p[i] = finish(numbers, p[i], sum);
    });
    return numbers.pack(numbers.result, x.shape, values);
  });
}

HostArray sectile::softmaxReference(const HostArray &x, Arithmetic arithmetic) {
  return ofDistances(x, arithmetic, [](const auto &numbers, auto distance, auto sum) {
    return numbers.store(std::exp(distance)) / sum;
  });
}

HostArray sectile::logSoftmaxReference(const HostArray &x, Arithmetic arithmetic) {
  return ofDistances(x, arithmetic, [](const auto &, auto distance, auto sum) {
    return distance - std::log(sum);
  });
}
