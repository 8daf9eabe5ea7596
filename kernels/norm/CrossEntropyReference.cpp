// Cross entropy on the host.
#include "kernels/norm/NormReferences.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace sectile;

namespace {

std::vector<std::int64_t> classesOf(const HostArray &targets) {
  std::vector<std::int64_t> classes;
  for (double target : targets.to_double())
    classes.push_back(static_cast<std::int64_t>(target));
  return classes;
}

double countOf(const std::vector<std::int64_t> &targets, std::int64_t ignored) {
  return static_cast<double>(targets.size()) -
         static_cast<double>(std::count(targets.begin(), targets.end(), ignored));
}

} // namespace

CrossEntropyResult sectile::crossEntropyReference(const HostArray &logits, const HostArray &targets,
                                                  const CrossEntropyValues &options,
                                                  Arithmetic arithmetic) {
  return with_arithmetic(logits.dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto values = numbers.load(logits);
    const auto classes = classesOf(targets);
    const std::int64_t length = logits.shape.back();
    const auto smoothing = static_cast<Number>(options.smoothing),
               square = static_cast<Number>(options.square);
    std::vector<Number> losses(classes.size()), logarithms(classes.size());
    parallelFor(static_cast<std::int64_t>(classes.size()), [&](std::int64_t row) {
      const Number *x = values.data() + row * length;
      const auto at = static_cast<std::size_t>(row);
      Number largest = -std::numeric_limits<Number>::infinity(), sum = 0, plain = 0;
      for (std::int64_t i = 0; i < length; ++i)
        largest = std::max(largest, x[i]);
      const Number base = largest == -std::numeric_limits<Number>::infinity() ? 0 : largest;
      for (std::int64_t i = 0; i < length; ++i) {
        sum += std::exp(numbers.store(x[i] - base));
        plain += x[i];
      }
      const Number lse = logarithms[at] = base + std::log(sum);
      if (classes[at] == options.ignored)
        return;
      losses[at] = lse - x[classes[at]];
      if (options.smoothing != 0)
        losses[at] =
            (1 - smoothing) * losses[at] + smoothing * (lse - plain / static_cast<Number>(length));
      losses[at] += square * lse * lse;
    });
    Shape shape = targets.shape;
    if (options.reduction != "none") {
      Number total = 0;
      for (Number loss : losses)
        total += loss;
      if (options.reduction == "mean")
        total /= static_cast<Number>(countOf(classes, options.ignored));
      losses = {total};
      shape = {};
    }
    return CrossEntropyResult{numbers.pack(numbers.statistics, shape, losses),
                              numbers.pack(numbers.statistics, targets.shape, logarithms)};
  });
}

HostArray sectile::crossEntropyBackwardReference(const HostArray &logits, const HostArray &targets,
                                                 const HostArray &lse, const HostArray &dloss,
                                                 const CrossEntropyValues &options,
                                                 Arithmetic arithmetic) {
  return with_arithmetic(logits.dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    auto values = numbers.load(logits);
    const auto classes = classesOf(targets);
    const auto logarithms = numbers.load(lse), gradients = numbers.load(dloss);
    const std::int64_t length = logits.shape.back();
    const auto smoothing = static_cast<Number>(options.smoothing),
               square = static_cast<Number>(options.square);
    const auto count = static_cast<Number>(countOf(classes, options.ignored));
    parallelFor(static_cast<std::int64_t>(classes.size()), [&](std::int64_t row) {
      Number *x = values.data() + row * length;
      const auto at = static_cast<std::size_t>(row);
      Number gradient = gradients[options.reduction == "none" ? at : 0];
      if (options.reduction == "mean")
        gradient /= count;
      for (std::int64_t i = 0; i < length; ++i) {
        const Number weight = numbers.store(std::exp(numbers.store(x[i] - logarithms[at])));
        const Number own = i == classes[at] ? 1 - smoothing : 0;
        x[i] = numbers.store(weight * (1 + 2 * square * logarithms[at]) - own -
                             smoothing / static_cast<Number>(length)) *
               gradient;
        if (classes[at] == options.ignored)
          x[i] = 0;
      }
    });
    return numbers.pack(numbers.result, logits.shape, values);
  });
}
