// stick_breaking_attention on the host.
#include "kernels/position/References.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <cmath>

using namespace sectile;

namespace {

std::size_t at(std::int64_t place) { return static_cast<std::size_t>(place); }

template <class Numbers> class Sticks {
public:
  using Number = typename Numbers::Number;

  const std::int64_t heads, queries, width, kvHeads, keys, rows;
  const std::vector<Number> q, k, v;

  Sticks(const Numbers &numbers, std::span<const HostArray> inputs, double scale)
      : heads(inputs[0].shape[1]), queries(inputs[0].shape[2]), width(inputs[0].shape[3]),
        kvHeads(inputs[1].shape[1]), keys(inputs[1].shape[2]),
        rows(inputs[0].shape[0] * heads * queries), q(numbers.load(inputs[0])),
        k(numbers.load(inputs[1])), v(numbers.load(inputs[2])), scale(static_cast<Number>(scale)),
        numbers(numbers) {}

  std::int64_t keyRow(std::int64_t row, std::int64_t j) const {
    const std::int64_t head = row / queries % heads, batch = row / queries / heads;
    return (batch * kvHeads + head / (heads / kvHeads)) * keys + j;
  }
  // Scores and weights of the keys that a row sees, and what is left of its stick.
  Number breakStick(std::int64_t row, std::vector<Number> &scores,
                    std::vector<Number> &weights) const {
    const std::int64_t seen = std::clamp<std::int64_t>(row % queries + keys - queries, 0, keys);
    scores.assign(at(seen), 0);
    weights.assign(at(seen), 0);
    Number shorter = 0;
    for (std::int64_t j = seen - 1; j >= 0; --j) {
      Number sum = 0;
      for (std::int64_t d = 0; d < width; ++d)
        sum += q[at(row * width + d)] * k[at(keyRow(row, j) * width + d)];
      const Number s = scores[at(j)] = numbers.store(numbers.store(sum) * scale);
      const Number tail = std::log1p(std::exp(-std::abs(s)));
      weights[at(j)] = numbers.store(std::exp(std::min<Number>(s, 0) - tail - shorter));
      shorter += std::max<Number>(s, 0) + tail;
    }
    return std::exp(-shorter);
  }

  const Number scale;

private:
  const Numbers &numbers;
};

} // namespace

std::vector<HostArray> sectile::stickBreakingReference(std::span<const HostArray> inputs,
                                                       double scale, Arithmetic arithmetic) {
  return with_arithmetic(inputs[0].dtype, arithmetic, [&](auto numbers) {
    const Sticks sticks(numbers, inputs, scale);
    using Number = typename decltype(numbers)::Number;
    std::vector<Number> output(sticks.q.size()), rest(at(sticks.rows));
    parallelFor(sticks.rows, [&](std::int64_t row) {
      std::vector<Number> scores, weights;
      rest[at(row)] = sticks.breakStick(row, scores, weights);
      for (std::size_t j = 0; j < weights.size(); ++j)
        for (std::int64_t d = 0; d < sticks.width; ++d)
          output[at(row * sticks.width + d)] +=
              weights[j] *
              sticks.v[at(sticks.keyRow(row, static_cast<std::int64_t>(j)) * sticks.width + d)];
    });
    const Shape &shape = inputs[0].shape;
    return std::vector{numbers.pack(numbers.result, shape, output),
                       numbers.pack(numbers.statistics, {shape[0], shape[1], shape[2]}, rest)};
  });
}

std::vector<HostArray> sectile::stickBreakingBackwardReference(std::span<const HostArray> inputs,
                                                               double scale,
                                                               Arithmetic arithmetic) {
  return with_arithmetic(inputs[0].dtype, arithmetic, [&](auto numbers) {
    const Sticks sticks(numbers, inputs, scale);
    using Number = typename decltype(numbers)::Number;
    const auto slope = numbers.load(inputs[3]);
    const auto restSlope =
        inputs[4].shape.empty() ? std::vector<Number>(at(sticks.rows)) : numbers.load(inputs[4]);
    const std::int64_t width = sticks.width;
    std::vector<Number> dq(sticks.q.size()), dk(sticks.k.size()), dv(sticks.v.size());
    std::vector<Number> scores, weights;
    for (std::int64_t row = 0; row < sticks.rows; ++row) {
      const Number rest = sticks.breakStick(row, scores, weights);
      // The sum over the earlier keys of weight times gradient, and what the rest adds.
      Number earlier = rest * restSlope[at(row)];
      for (std::size_t j = 0; j < weights.size(); ++j) {
        const std::size_t own = at(row * width),
                          other = at(sticks.keyRow(row, static_cast<std::int64_t>(j)) * width);
        Number gradient = 0;
        for (std::size_t d = 0; d < at(width); ++d) {
          gradient += slope[own + d] * sticks.v[other + d];
          dv[other + d] += weights[j] * slope[own + d];
        }
        const Number change = numbers.store(weights[j] * numbers.store(gradient));
        earlier += change;
        const Number broken = numbers.store(1 / (1 + std::exp(-scores[j])));
        const Number ds = numbers.store((change - broken * earlier) * sticks.scale);
        for (std::size_t d = 0; d < at(width); ++d) {
          dq[own + d] += ds * sticks.k[other + d];
          dk[other + d] += ds * sticks.q[own + d];
        }
      }
    }
    return std::vector{numbers.pack(numbers.result, inputs[0].shape, dq),
                       numbers.pack(numbers.result, inputs[1].shape, dk),
                       numbers.pack(numbers.result, inputs[2].shape, dv)};
  });
}
