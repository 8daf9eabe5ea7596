// Steps of the delta rule and of RWKV-7 with states in a pool, on the host.
#include "kernels/blocks/Activations.h"
#include "kernels/recurrent/DeltaGates.h"
#include "kernels/recurrent/DeltaStep.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <cmath>

using namespace sectile;

namespace {

template <class Number> Number softplus(Number x) {
  return std::max<Number>(x, 0) + std::log1p(std::exp(-std::abs(x)));
}

template <class Numbers> struct Steps {
  using Number = typename Numbers::Number;
  using Array = std::vector<Number>;
  Numbers numbers;
  const Invocation &call;
  std::size_t batches, length, keyHeads, heads, width, columns;
  Array q, k, v, a, b, beta, g, gk, speeds, bias, D, z;
  std::string rule, gate;
  bool isByChannel; // g and bias

  static std::size_t size(const Invocation &call, const char *axis) {
    return static_cast<std::size_t>(call.extent(axis));
  }
  Steps(Numbers numbers, const Invocation &call, std::span<const HostArray> in)
      : numbers(numbers), call(call), batches(size(call, "B")), length(size(call, "T")),
        keyHeads(size(call, "Hk")), heads(size(call, "Hv")), width(size(call, "K")),
        columns(size(call, "V")), rule(delta::ruleOf(call)), gate(call.options.choice("gate")),
        isByChannel(delta::isByChannel(call)) {
    const auto load = [&](const char *name) { return numbers.load(in[call.index(name)]); };
    q = load("q");
    k = load("k");
    v = load("v");
    beta = load("beta");
    g = load("g");
    speeds = load("A_log");
    bias = load("dt_bias");
    D = load("D");
    z = load("z");
    if (rule == "rwkv7") {
      a = load("a");
      b = load("b");
    } else {
      gk = load("gk");
    }
    if (call.options.flag("qk_l2norm"))
      for (Array *rows : {&q, &k})
        for (std::size_t first = 0; first < rows->size(); first += width) {
          Number *row = rows->data() + first, squares = 0;
          for (std::size_t d = 0; d < width; ++d)
            squares += row[d] * row[d];
          const Number root = std::sqrt(squares + static_cast<Number>(1e-6));
          for (std::size_t d = 0; d < width; ++d)
            row[d] = numbers.store(row[d] / root);
        }
  }

  // What the gate adds up. Only by channel does it depend on d.
  Number raw(std::size_t row, std::size_t head, std::size_t d) const {
    const auto at = [&](std::size_t i) { return isByChannel ? i * width + d : i; };
    return (g.empty() ? 0 : g[at(row)]) + (bias.empty() ? 0 : bias[at(head)]);
  }
  Number stepLength(std::size_t row, std::size_t head, std::size_t d) const {
    const delta::Limits limits = delta::limitsOf(call);
    return std::clamp(softplus(raw(row, head, d)), static_cast<Number>(limits.least),
                      static_cast<Number>(limits.most));
  }
  Number decay(std::size_t row, std::size_t head, std::size_t d) const {
    const Number speed = speeds.empty() ? 1 : std::exp(speeds[head]);
    Number log = raw(row, head, d);
    if (gate == "softplus")
      log = -speed * stepLength(row, head, d);
    else if (gate == "sigmoid")
      log = static_cast<Number>(call.options.number("lower_bound")) *
            activation::logistic(speed * log);
    return std::exp(log + (gk.empty() ? 0 : gk[row * width + d]));
  }
  Number strength(std::size_t row, std::size_t head) const {
    Number result = rule == "mamba2" ? stepLength(row, head, 0) : beta.empty() ? 1 : beta[row];
    if (call.options.flag("beta_sigmoid"))
      result = activation::logistic(result);
    return call.options.flag("allow_negative") ? 2 * result : result;
  }
  Number scale() const {
    if (call.options.given("scale"))
      return static_cast<Number>(call.options.number("scale"));
    if (rule == "mamba2" || rule == "rwkv7")
      return 1;
    return static_cast<Number>(1 / std::sqrt(static_cast<double>(std::max<std::size_t>(width, 1))));
  }

  // state [columns, width] becomes the next.
  void step(std::size_t batch, std::size_t t, std::size_t head, Number *state,
            Number *output) const {
    const std::size_t row = (batch * length + t) * heads + head,
                      key = ((batch * length + t) * keyHeads + head / (heads / keyHeads)) * width;
    const Number write = strength(row, head);
    for (std::size_t e = 0; e < columns; ++e) {
      Number *own = state + e * width, read = 0, known = 0, sum = 0;
      for (std::size_t d = 0; d < width; ++d) {
        if (rule == "rwkv7")
          read += own[d] * a[key + d];
        own[d] *= decay(row, head, d);
        known += own[d] * k[key + d];
      }
      const Number value = v[row * columns + e],
                   added = numbers.store(write *
                                         (rule == "delta" ? value - numbers.store(known) : value));
      for (std::size_t d = 0; d < width; ++d) {
        if (rule == "rwkv7")
          own[d] += numbers.store(numbers.store(read) * b[key + d]);
        own[d] += numbers.store(added * k[key + d]);
        sum += own[d] * q[key + d];
      }
      Number result = scale() * sum;
      if (!D.empty())
        result = numbers.store(result) + numbers.store(D[head] * value);
      if (!z.empty()) {
        const Number gate = z[row * columns + e];
        result = numbers.store(result) * numbers.store(gate * activation::logistic(gate));
      }
      output[row * columns + e] = result;
    }
  }
};

} // namespace

std::vector<HostArray> delta_step::reference(const Invocation &call, std::span<const HostArray> in,
                                             Arithmetic arithmetic) {
  const HostArray &pool = in[call.index("state")];
  return with_arithmetic(in[0].dtype, arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    const Steps all(numbers, call, in);
    const std::size_t size = all.columns * all.width;
    auto states = numbers.load(pool);
    const bool keeps = call.options.flag("keep_states");
    std::vector<Number> o(all.v.size()),
        kept(keeps ? all.batches * all.length * all.heads * size : 0);
    const auto rows =
        call.has("indices") ? in[call.index("indices")].to_double() : std::vector<double>();
    parallelFor(static_cast<std::int64_t>(all.batches * all.heads), [&](std::int64_t index) {
      const std::size_t batch = static_cast<std::size_t>(index) / all.heads,
                        head = static_cast<std::size_t>(index) % all.heads;
      const auto row =
          rows.empty() ? static_cast<std::int64_t>(batch) : static_cast<std::int64_t>(rows[batch]);
      if (row < 0)
        return;
      Number *const state =
          states.data() + (static_cast<std::size_t>(row) * all.heads + head) * size;
      for (std::size_t t = 0; t < all.length; ++t) {
        all.step(batch, t, head, state, o.data());
        if (keeps)
          std::copy_n(state, size,
                      kept.data() + ((batch * all.length + t) * all.heads + head) * size);
      }
    });
    const DType stored = arithmetic == Arithmetic::exact ? DType::float64 : pool.dtype;
    return std::vector{numbers.pack(numbers.result, in[2].shape, o),
                       numbers.pack(stored, pool.shape, states),
                       keeps ? numbers.pack(stored,
                                            {call.extent("B"), call.extent("T"), call.extent("Hv"),
                                             call.extent("V"), call.extent("K")},
                                            kept)
                             : HostArray()};
  });
}
