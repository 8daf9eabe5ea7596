// Group normalisation on the host: a group's channels and positions are neighbours, like a row.
#include "kernels/norm/NormReferences.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <cmath>

using namespace sectile;

namespace {

struct Sizes {
  std::size_t groups, length, positions; // of all images; elements of a group; of a channel
  std::size_t channels;

  Sizes(const HostArray &x, std::int64_t perImage) {
    channels = static_cast<std::size_t>(x.shape[1]);
    positions = 1;
    for (std::size_t i = 2; i < x.shape.size(); ++i)
      positions *= static_cast<std::size_t>(x.shape[i]);
    groups = static_cast<std::size_t>(x.shape[0] * perImage);
    length = channels / static_cast<std::size_t>(perImage) * positions;
  }
  std::size_t channel(std::size_t group, std::size_t i) const {
    return (group * (length / positions) + i / positions) % channels;
  }
};

} // namespace

LayerNormResult sectile::groupNormReference(const HostArray &x, const HostArray &w,
                                            const HostArray &b, std::int64_t groups, double eps,
                                            Arithmetic arithmetic) {
  return with_arithmetic(x.dtype, arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    auto values = numbers.load(x);
    const auto weight = numbers.load(w), bias = numbers.load(b);
    const Sizes sizes(x, groups);
    std::vector<Number> means(sizes.groups), rstds(sizes.groups);
    parallelFor(static_cast<std::int64_t>(sizes.groups), [&](std::int64_t number) {
      const auto group = static_cast<std::size_t>(number);
      Number *p = values.data() + group * sizes.length;
      Number mean = 0, variance = 0;
      for (std::size_t i = 0; i < sizes.length; ++i)
        mean += p[i];
      mean /= static_cast<Number>(sizes.length);
      for (std::size_t i = 0; i < sizes.length; ++i)
        variance += (p[i] - mean) * (p[i] - mean);
      variance /= static_cast<Number>(sizes.length);
      const Number rstd = 1 / std::sqrt(variance + static_cast<Number>(eps));
      for (std::size_t i = 0; i < sizes.length; ++i) {
        const std::size_t channel = sizes.channel(group, i);
        p[i] = numbers.store(numbers.store((p[i] - mean) * rstd) * weight[channel]) + bias[channel];
      }
      means[group] = mean;
      rstds[group] = rstd;
    });
    const Shape shape{x.shape[0], groups};
    return LayerNormResult{numbers.pack(numbers.result, x.shape, values),
                           numbers.pack(numbers.statistics, shape, means),
                           numbers.pack(numbers.statistics, shape, rstds)};
  });
}

NormBackwardResult sectile::groupNormBackwardReference(const HostArray &x, const HostArray &w,
                                                       const HostArray &mean, const HostArray &rstd,
                                                       const HostArray &dy, Arithmetic arithmetic) {
  return with_arithmetic(x.dtype, arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    auto values = numbers.load(x), dx = values;
    const auto weight = numbers.load(w), gradient = numbers.load(dy), means = numbers.load(mean),
               scales = numbers.load(rstd);
    const Sizes sizes(x, mean.shape[1]);
    std::vector<Number> dw(sizes.channels), db(sizes.channels);
    for (std::size_t group = 0; group < sizes.groups; ++group) {
      const std::size_t first = group * sizes.length;
      Number along = 0, across = 0;
      for (std::size_t i = 0; i < sizes.length; ++i) {
        const std::size_t at = first + i, channel = sizes.channel(group, i);
        values[at] = numbers.store((values[at] - means[group]) * scales[group]);
        dx[at] = numbers.store(gradient[at] * weight[channel]);
        along += dx[at] * values[at];
        across += dx[at];
        dw[channel] += numbers.store(gradient[at] * values[at]);
        db[channel] += gradient[at];
      }
      along /= static_cast<Number>(sizes.length);
      across /= static_cast<Number>(sizes.length);
      for (std::size_t at = first; at < first + sizes.length; ++at)
        dx[at] = numbers.store((dx[at] - across - values[at] * along) * scales[group]);
    }
    return NormBackwardResult{numbers.pack(numbers.result, x.shape, dx),
                              numbers.pack(numbers.result, w.shape, dw),
                              numbers.pack(numbers.result, w.shape, db)};
  });
}
