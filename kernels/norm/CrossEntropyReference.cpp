// Cross entropy on the host.
#include "kernels/norm/NormReferences.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace sectile;

namespace {

std::vector<std::int64_t> classesOf(const HostArray &targets) {
  std::vector<std::int64_t> classes;
  for (double target : targets.to_double())
    classes.push_back(static_cast<std::int64_t>(target));
  return classes;
}

// The weights of classes in losses, and what a mean makes of these.
template <class Number> struct Weights {
  std::vector<Number> each; // none: all are 1
  Number ofTargets = 0;     // that count
  Number square;            // z, as it is in losses that are divided by `ofTargets`

  Weights(const CrossEntropyValues &options, const std::vector<std::int64_t> &targets)
      : each(options.weights.begin(), options.weights.end()),
        square(static_cast<Number>(options.square)) {
    Number count = 0;
    for (const std::int64_t target : targets)
      if (target != options.ignored) {
        ofTargets += of(target);
        ++count;
      }
    if (options.reduction == "mean" && !each.empty())
      square *= ofTargets / count;
  }
  Number of(std::int64_t place) const {
    return each.empty() ? 1 : each[static_cast<std::size_t>(place)];
  }
  Number mean(std::int64_t classes) const {
    if (each.empty())
      return 1;
    return std::accumulate(each.begin(), each.end(), Number(0)) / static_cast<Number>(classes);
  }
};

} // namespace

CrossEntropyResult sectile::crossEntropyReference(const HostArray &logits, const HostArray &targets,
                                                  const CrossEntropyValues &options,
                                                  Arithmetic arithmetic) {
  return with_arithmetic(logits.dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto values = numbers.load(logits);
    const auto classes = classesOf(targets);
    const std::int64_t length = logits.shape.back();
    const auto smoothing = static_cast<Number>(options.smoothing);
    const Weights<Number> weights(options, classes);
    const Number meanWeight = weights.mean(length);
    std::vector<Number> losses(classes.size()), logarithms(classes.size());
    HostArray argmax(DType::int32, targets.shape);
    parallelFor(static_cast<std::int64_t>(classes.size()), [&](std::int64_t row) {
      const Number *x = values.data() + row * length;
      const auto at = static_cast<std::size_t>(row);
      Number largest = -std::numeric_limits<Number>::infinity(), sum = 0, plain = 0;
      std::int64_t first = 0;
      for (std::int64_t i = 0; i < length; ++i) {
        largest = std::max(largest, x[i]);
        if (!std::isnan(x[first]) && (x[i] > x[first] || std::isnan(x[i])))
          first = i;
      }
      argmax.as<std::int32_t>()[at] = static_cast<std::int32_t>(first);
      const Number base = largest == -std::numeric_limits<Number>::infinity() ? 0 : largest;
      for (std::int64_t i = 0; i < length; ++i) {
        sum += std::exp(numbers.store(x[i] - base));
        plain += weights.of(i) * x[i];
      }
      const Number lse = logarithms[at] = base + std::log(sum);
      if (classes[at] == options.ignored)
        return;
      losses[at] = weights.of(classes[at]) * (lse - x[classes[at]]);
      if (options.smoothing != 0)
        losses[at] = (1 - smoothing) * losses[at] +
                     smoothing * (meanWeight * lse - plain / static_cast<Number>(length));
      losses[at] += weights.square * lse * lse;
    });
    Shape shape = targets.shape;
    if (options.reduction != "none") {
      Number total = 0;
      for (Number loss : losses)
        total += loss;
      if (options.reduction == "mean")
        total /= weights.ofTargets;
      losses = {total};
      shape = {};
    }
    return CrossEntropyResult{numbers.pack(numbers.statistics, shape, losses),
                              numbers.pack(numbers.statistics, targets.shape, logarithms), argmax};
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
    const auto smoothing = static_cast<Number>(options.smoothing);
    const Weights<Number> weights(options, classes);
    const Number meanWeight = weights.mean(length);
    parallelFor(static_cast<std::int64_t>(classes.size()), [&](std::int64_t row) {
      Number *x = values.data() + row * length;
      const auto at = static_cast<std::size_t>(row);
      if (classes[at] == options.ignored) {
        std::fill_n(x, length, Number(0));
        return;
      }
      Number gradient = gradients[options.reduction == "none" ? at : 0];
      if (options.reduction == "mean")
        gradient /= weights.ofTargets;
      const Number ofTarget = (1 - smoothing) * weights.of(classes[at]),
                   all = weights.each.empty() ? 1 : ofTarget + smoothing * meanWeight;
      for (std::int64_t i = 0; i < length; ++i) {
        const Number part = numbers.store(std::exp(numbers.store(x[i] - logarithms[at])));
        const Number own = i == classes[at] ? ofTarget : 0;
        x[i] = numbers.store(part * (all + 2 * weights.square * logarithms[at]) - own -
                             smoothing * weights.of(i) / static_cast<Number>(length)) *
               gradient;
      }
    });
    return numbers.pack(numbers.result, logits.shape, values);
  });
}
