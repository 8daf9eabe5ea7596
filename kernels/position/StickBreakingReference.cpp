// stick_breaking_attention on the host.
#include "kernels/attention/ReferenceRows.h"
#include "kernels/position/References.h"

using namespace sectile;

namespace {

// Queries see the keys before them.
ReferenceLayout layoutOf(std::span<const HostArray> inputs) {
  ReferenceLayout layout = denseLayout(inputs[0], inputs[1], inputs[2]);
  const std::int64_t offset = inputs[1].shape[2] - inputs[0].shape[2];
  layout.sees = [=](std::int64_t, std::int64_t i, std::int64_t j) { return j < i + offset; };
  return layout;
}

// The weights of a row's scores, 0 where a key is hidden; gives what is left of the stick.
template <class Numbers, class Number = typename Numbers::Number>
Number breakStick(const Numbers &numbers, const std::vector<Number> &scores,
                  std::vector<Number> &weights) {
  Number shorter = 0;
  weights.assign(scores.size(), 0);
  for (std::size_t j = scores.size(); j-- > 0;) {
    const Number s = scores[j];
    if (s == -std::numeric_limits<Number>::infinity())
      continue;
    const Number tail = std::log1p(std::exp(-std::abs(s)));
    weights[j] = numbers.store(std::exp(std::min<Number>(s, 0) - tail - shorter));
    shorter += std::max<Number>(s, 0) + tail;
  }
  return std::exp(-shorter);
}

} // namespace

std::vector<HostArray> sectile::stickBreakingReference(std::span<const HostArray> inputs,
                                                       double scale, Arithmetic arithmetic) {
  return with_arithmetic(inputs[0].dtype, arithmetic, [&](auto numbers) {
    using Numbers = std::vector<typename decltype(numbers)::Number>;
    const ReferenceLayout layout = layoutOf(inputs);
    const AttentionSettings settings{.scale = scale};
    const ReferenceProblem problem{numbers, layout, settings, inputs[0], inputs[1], inputs[2]};
    const auto result = weightedValues(problem, [&](const ReferenceQuery &, Numbers &scores) {
      return breakStick(numbers, Numbers(scores), scores);
    });
    return std::vector{result.o, result.lse};
  });
}

std::vector<HostArray> sectile::stickBreakingBackwardReference(std::span<const HostArray> inputs,
                                                               double scale,
                                                               Arithmetic arithmetic) {
  return with_arithmetic(inputs[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    using Numbers = std::vector<Number>;
    const ReferenceLayout layout = layoutOf(inputs);
    const AttentionSettings settings{.scale = scale};
    const ReferenceProblem problem{numbers, layout, settings, inputs[0], inputs[1], inputs[2]};
    const Numbers restSlopes = numbers.load(inputs[4]);
    const auto slopesOf = [&](const ReferenceQuery &of, const Numbers &scores, Numbers &weights,
                              Numbers &slopes) {
      const Number rest = breakStick(numbers, scores, weights);
      // The sum over the earlier keys of weight times gradient, and what the rest adds.
      Number earlier =
          restSlopes.empty()
              ? 0
              : rest * restSlopes[at(layout.logarithm.of(of.sequence, of.head, of.number))];
      for (std::size_t j = 0; j < scores.size(); ++j) {
        const Number change = numbers.store(weights[j] * numbers.store(slopes[j])),
                     broken = numbers.store(1 / (1 + std::exp(-scores[j])));
        earlier += change;
        slopes[j] = numbers.store(change - broken * earlier);
      }
      return true;
    };
    const auto found = scoreGradients(problem, inputs[3], false, slopesOf);
    return std::vector{numbers.pack(numbers.result, inputs[0].shape, found.dq[0]),
                       numbers.pack(numbers.result, inputs[1].shape, found.dk[0]),
                       numbers.pack(numbers.result, inputs[2].shape, found.dv)};
  });
}
