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

  explicit Sizes(const Invocation &call)
      : groups(static_cast<std::size_t>(call.extent("B") * call.extent("G"))),
        length(static_cast<std::size_t>(call.extent("C") / call.extent("G") *
                                        elementCount(call.leading))),
        positions(static_cast<std::size_t>(elementCount(call.leading))),
        channels(static_cast<std::size_t>(call.extent("C"))) {}
  std::size_t channel(std::size_t group, std::size_t i) const {
    return (group * (length / positions) + i / positions) % channels;
  }
};

} // namespace

std::vector<HostArray> sectile::groupNormReference(const Invocation &call,
                                                   std::span<const HostArray> in,
                                                   Arithmetic arithmetic) {
  return with_arithmetic(in[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    auto values = numbers.load(in[0]);
    const auto weight = numbers.load(in[1]), bias = numbers.load(in[2]);
    const auto eps = static_cast<Number>(call.options.number("eps"));
    const Sizes sizes(call);
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
      const Number rstd = 1 / std::sqrt(variance + eps);
      for (std::size_t i = 0; i < sizes.length; ++i) {
        const std::size_t channel = sizes.channel(group, i);
        p[i] = numbers.store(numbers.store((p[i] - mean) * rstd) * weight[channel]) + bias[channel];
      }
      means[group] = mean;
      rstds[group] = rstd;
    });
    return outputsOf(call, numbers, values, means, rstds);
  });
}

std::vector<HostArray> sectile::groupNormBackwardReference(const Invocation &call,
                                                           std::span<const HostArray> in,
                                                           Arithmetic arithmetic) {
  return with_arithmetic(in[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    auto values = numbers.load(in[0]), dx = values;
    const auto weight = numbers.load(in[1]), means = numbers.load(in[2]),
               scales = numbers.load(in[3]), gradient = numbers.load(in[4]);
    const Sizes sizes(call);
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
    return outputsOf(call, numbers, dx, dw, db);
  });
}
