// The linear recurrence and its gradients on the host, step by step.
#include "kernels/recurrent/Family.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <cmath>

using namespace sectile;

namespace {

// The inputs of all heads. States are [Dk, Dv].
template <class Numbers> struct Heads {
  using Number = typename Numbers::Number;
  using Array = std::vector<Number>;
  Numbers numbers;
  std::size_t heads, length, dk, dv;
  bool reverse;
  Number scale;
  Array q, k, v, g, gk, initial;

  Heads(Numbers numbers, const Invocation &call, std::span<const HostArray> inputs)
      : numbers(numbers), heads(static_cast<std::size_t>(call.extent("B") * call.extent("H"))),
        length(static_cast<std::size_t>(call.extent("T"))),
        dk(static_cast<std::size_t>(call.extent("Dk"))),
        dv(static_cast<std::size_t>(call.extent("Dv"))), reverse(call.options.flag("reverse")),
        scale(call.options.given("scale")
                  ? static_cast<Number>(call.options.number("scale"))
                  : static_cast<Number>(1 / std::sqrt(static_cast<double>(dk)))),
        q(numbers.load(inputs[0])), k(numbers.load(inputs[1])), v(numbers.load(inputs[2])) {
    if (call.has("g"))
      g = numbers.load(inputs[3]);
    if (call.has("gk"))
      gk = numbers.load(inputs[4]);
    if (call.has("initial_state"))
      initial = numbers.load(inputs[5]);
  }

  // The row of arrays [heads, length, …] that step s goes to.
  std::size_t row(std::size_t head, std::size_t s) const {
    return head * length + (reverse ? length - 1 - s : s);
  }
  Number decay(std::size_t row, std::size_t d) const {
    return std::exp((g.empty() ? 0 : g[row]) + (gk.empty() ? 0 : gk[row * dk + d]));
  }
  // The states of a head before the first step and after each.
  std::vector<Array> states(std::size_t head) const {
    std::vector<Array> all(1, Array(dk * dv));
    if (!initial.empty())
      std::copy_n(initial.begin() + static_cast<std::ptrdiff_t>(head * dk * dv), dk * dv,
                  all[0].begin());
    for (std::size_t s = 0; s < length; ++s) {
      Array next = all.back();
      const std::size_t t = row(head, s);
      for (std::size_t d = 0; d < dk; ++d)
        for (std::size_t e = 0; e < dv; ++e)
          next[d * dv + e] =
              decay(t, d) * next[d * dv + e] + numbers.store(k[t * dk + d] * v[t * dv + e]);
      all.push_back(std::move(next));
    }
    return all;
  }
};

} // namespace

std::vector<HostArray> sectile::linearRecurrenceReference(const Invocation &call,
                                                          std::span<const HostArray> inputs,
                                                          Arithmetic arithmetic) {
  return with_arithmetic(inputs[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const Heads heads(numbers, call, inputs);
    const std::size_t dk = heads.dk, dv = heads.dv;
    std::vector<Number> o(heads.heads * heads.length * dv), last(heads.heads * dk * dv);
    parallelFor(static_cast<std::int64_t>(heads.heads), [&](std::int64_t index) {
      const auto head = static_cast<std::size_t>(index);
      const auto states = heads.states(head);
      for (std::size_t s = 0; s < heads.length; ++s) {
        const std::size_t t = heads.row(head, s);
        for (std::size_t e = 0; e < dv; ++e)
          for (std::size_t d = 0; d < dk; ++d)
            o[t * dv + e] += heads.scale * heads.q[t * dk + d] * states[s + 1][d * dv + e];
      }
      std::copy(states.back().begin(), states.back().end(),
                last.begin() + static_cast<std::ptrdiff_t>(head * dk * dv));
    });
    return outputsOf(call, numbers, o, last);
  });
}

std::vector<HostArray> sectile::linearRecurrenceBackwardReference(const Invocation &call,
                                                                  std::span<const HostArray> inputs,
                                                                  Arithmetic arithmetic) {
  return with_arithmetic(inputs[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const Heads heads(numbers, call, inputs);
    const std::size_t dk = heads.dk, dv = heads.dv, size = dk * dv;
    const auto output = numbers.load(inputs[6]);
    std::vector<Number> gradient(heads.heads * size);
    if (call.has("dfinal_state"))
      gradient = numbers.load(inputs[7]);
    std::vector<Number> dQuery(heads.q.size()), dKey(heads.k.size()), dValue(heads.v.size()),
        dg(heads.heads * heads.length), dgk(heads.k.size());
    parallelFor(static_cast<std::int64_t>(heads.heads), [&](std::int64_t index) {
      const auto head = static_cast<std::size_t>(index);
      const auto states = heads.states(head);
      Number *state = gradient.data() + head * size; // of the state after step s
      for (std::size_t s = heads.length; s-- > 0;) {
        const std::size_t t = heads.row(head, s);
        for (std::size_t d = 0; d < dk; ++d) {
          const Number decay = heads.decay(t, d);
          for (std::size_t e = 0; e < dv; ++e) {
            Number &own = state[d * dv + e];
            own += numbers.store(heads.scale * heads.q[t * dk + d] * output[t * dv + e]);
            dQuery[t * dk + d] += heads.scale * states[s + 1][d * dv + e] * output[t * dv + e];
            dKey[t * dk + d] += own * heads.v[t * dv + e];
            dValue[t * dv + e] += own * heads.k[t * dk + d];
            own *= decay;
            dgk[t * dk + d] += own * states[s][d * dv + e];
          }
          dg[t] += dgk[t * dk + d];
        }
      }
    });
    return outputsOf(call, numbers, dQuery, dKey, dValue, dg, dgk, gradient);
  });
}
