// The delta rule on the host, step by step.
#include "kernels/Activations.h"
#include "kernels/Parallel.h"
#include "kernels/ReferenceArithmetic.h"
#include "kernels/recurrent/Family.h"
#include <cmath>

using namespace sectile;

namespace {

template <class Numbers> struct DeltaCall {
  using Number = typename Numbers::Number;
  using Array = std::vector<Number>;
  Numbers numbers;
  std::size_t batches, length, keyHeads, heads, width, columns, count;
  Array q, k, v, beta, g, initial;
  std::vector<std::size_t> starts; // of sequences, among the steps of all batches

  DeltaCall(Numbers numbers, const Invocation &call, std::span<const HostArray> inputs)
      : numbers(numbers), batches(size(call, "B")), length(size(call, "T")),
        keyHeads(size(call, "Hk")), heads(size(call, "Hv")), width(size(call, "K")),
        columns(size(call, "V")), count(size(call, "N")), q(numbers.load(inputs[0])),
        k(numbers.load(inputs[1])), v(numbers.load(inputs[2])), beta(numbers.load(inputs[3])),
        g(numbers.load(inputs[4])), initial(numbers.load(inputs[7])) {
    const auto &options = call.options;
    if (options.flag("qk_l2norm"))
      for (Array *rows : {&q, &k})
        normalise(*rows);
    for (Number &b : beta) {
      if (options.flag("beta_sigmoid"))
        b = activation::logistic(b);
      if (options.flag("allow_negative"))
        b *= 2;
    }
    const Array logs = numbers.load(inputs[5]), bias = numbers.load(inputs[6]);
    const std::string &gate = options.choice("gate");
    const auto bound = static_cast<Number>(options.number("lower_bound"));
    if (g.empty() && gate != "none")
      g.resize(beta.size());
    for (std::size_t i = 0; i < g.size() && gate != "none"; ++i) {
      const std::size_t head = i % heads;
      const Number x = g[i] + (bias.empty() ? 0 : bias[head]),
                   speed = logs.empty() ? 1 : std::exp(logs[head]);
      g[i] =
          gate == "softplus" ? -speed * activateNumber(x) : bound * activation::logistic(speed * x);
    }
    if (call.has("cu_seqlens"))
      for (const std::int32_t start : inputs[8].as<std::int32_t>())
        starts.push_back(static_cast<std::size_t>(start));
    else
      for (std::size_t batch = 0; batch <= batches; ++batch)
        starts.push_back(batch * length);
  }

  static std::size_t size(const Invocation &call, const char *axis) {
    return static_cast<std::size_t>(call.extent(axis));
  }
  static Number activateNumber(Number x) {
    return std::max<Number>(x, 0) + std::log1p(std::exp(-std::abs(x)));
  }

  void normalise(Array &rows) const {
    for (std::size_t first = 0; first < rows.size(); first += width) {
      Number squares = 0;
      for (std::size_t d = 0; d < width; ++d)
        squares += rows[first + d] * rows[first + d];
      const Number factor = 1 / std::sqrt(squares + static_cast<Number>(1e-6));
      for (std::size_t d = 0; d < width; ++d)
        rows[first + d] = numbers.store(rows[first + d] * factor);
    }
  }

  // Of one step, state [width, columns] becomes the next; `output` is S^T q, not scaled.
  void step(std::size_t t, std::size_t head, Number *state, Number *output) const {
    const std::size_t row = t * heads + head,
                      key = (t * keyHeads + head / (heads / keyHeads)) * width;
    const Number decay = g.empty() ? 1 : std::exp(g[row]);
    for (std::size_t i = 0; i < width * columns; ++i)
      state[i] *= decay;
    for (std::size_t e = 0; e < columns; ++e) {
      Number known = 0;
      for (std::size_t d = 0; d < width; ++d)
        known += k[key + d] * state[d * columns + e];
      const Number added = numbers.store(beta[row] * (v[row * columns + e] - numbers.store(known)));
      Number sum = 0;
      for (std::size_t d = 0; d < width; ++d) {
        state[d * columns + e] += numbers.store(k[key + d] * added);
        sum += q[key + d] * state[d * columns + e];
      }
      output[e] = sum;
    }
  }
};

} // namespace

std::vector<HostArray> sectile::deltaRuleReference(const Invocation &call,
                                                   std::span<const HostArray> inputs,
                                                   Arithmetic arithmetic) {
  return with_arithmetic(inputs[0].dtype, arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    const DeltaCall all(numbers, call, inputs);
    const auto scale = call.options.given("scale")
                           ? static_cast<Number>(call.options.number("scale"))
                           : static_cast<Number>(1 / std::sqrt(static_cast<double>(all.width)));
    const std::size_t size = all.width * all.columns;
    std::vector<Number> o(all.v.size()), last(all.count * all.heads * size);
    if (!all.initial.empty())
      last = all.initial;
    parallelFor(static_cast<std::int64_t>(all.count * all.heads), [&](std::int64_t index) {
      const auto at = static_cast<std::size_t>(index);
      const std::size_t sequence = at / all.heads, head = at % all.heads;
      for (std::size_t t = all.starts[sequence]; t < all.starts[sequence + 1]; ++t) {
        Number *const output = o.data() + (t * all.heads + head) * all.columns;
        all.step(t, head, last.data() + at * size, output);
        for (std::size_t e = 0; e < all.columns; ++e)
          output[e] *= all.width ? scale : 0;
      }
    });
    const Shape state{call.extent("N"), call.extent("Hv"), call.extent("K"), call.extent("V")};
    return std::vector{numbers.pack(numbers.result, inputs[2].shape, o),
                       numbers.pack(numbers.statistics, state, last)};
  });
}
