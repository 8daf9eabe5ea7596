// Gradients of softmax and log-softmax on the host.
#include "kernels/norm/NormReferences.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <cmath>

using namespace sectile;

// dx from y and dy row by row: `terms` are summed, then `gradient` is asked for each element.
template <class Terms, class Gradient>
static std::vector<HostArray> rowGradients(const Invocation &call, std::span<const HostArray> in,
                                           Arithmetic arithmetic, Terms terms, Gradient gradient) {
  return with_arithmetic(in[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto values = numbers.load(in[0]);
    auto gradients = numbers.load(in[1]);
    const std::int64_t length = call.extent("N");
    parallelFor(length ? elementCount(call.leading) : 0, [&](std::int64_t row) {
      const Number *p = values.data() + row * length;
      Number *g = gradients.data() + row * length, sum = 0;
      for (std::int64_t i = 0; i < length; ++i)
        sum += numbers.store(terms(p[i], g[i]));
      for (std::int64_t i = 0; i < length; ++i)
        g[i] = gradient(numbers, p[i], g[i], sum);
    });
    return outputsOf(call, numbers, gradients);
  });
}

std::vector<HostArray> sectile::softmaxBackwardReference(const Invocation &call,
                                                         std::span<const HostArray> in,
                                                         Arithmetic arithmetic) {
  return rowGradients(
      call, in, arithmetic, [](auto y, auto dy) { return y * dy; },
      [](auto numbers, auto y, auto dy, auto sum) { return y * numbers.store(dy - sum); });
}

std::vector<HostArray> sectile::logSoftmaxBackwardReference(const Invocation &call,
                                                            std::span<const HostArray> in,
                                                            Arithmetic arithmetic) {
  return rowGradients(
      call, in, arithmetic, [](auto, auto dy) { return dy; },
      [](auto numbers, auto y, auto dy, auto sum) {
        return dy - numbers.store(numbers.store(std::exp(y)) * sum);
      });
}
