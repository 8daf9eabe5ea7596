// Causal convolutions along time and their gradients on the host.
#include "kernels/conv/CausalConv.h"
#include "kernels/references/ReferenceArithmetic.h"

using namespace sectile;

namespace {

// A call's inputs, and where its sequences lie in rows [B T, D].
template <class Numbers> struct Inputs {
  using Number = typename Numbers::Number;
  using Array = std::vector<Number>;
  Numbers numbers;
  std::int64_t channels, taps, before;
  bool silu;
  Array x, w, b, state;
  std::vector<std::int64_t> first, end, row; // of each sequence; of its state, -1: none

  Inputs(Numbers numbers, const Invocation &call, std::span<const HostArray> in, const char *states)
      : numbers(numbers), channels(call.extent("D")), taps(call.extent("W")), before(taps - 1),
        silu(call.options.choice("activation") == "silu"), x(numbers.load(in[0])),
        w(numbers.load(in[1])), b(numbers.load(in[2])),
        state(numbers.load(in[call.index(states)])) {
    const std::int64_t length = call.extent("T"), sequences = call.extent("N");
    const bool packed = call.has("cu_seqlens");
    const auto bounds = packed ? in[call.index("cu_seqlens")].to_double() : std::vector<double>();
    for (std::int64_t s = 0; s < sequences; ++s) {
      const auto at = static_cast<std::size_t>(s);
      first.push_back(packed ? static_cast<std::int64_t>(bounds[at]) : s * length);
      end.push_back(packed ? static_cast<std::int64_t>(bounds[at + 1]) : (s + 1) * length);
      row.push_back(call.has(states) ? s : -1);
    }
  }

  std::size_t place(std::int64_t t, std::int64_t d) const {
    return static_cast<std::size_t>(t * channels + d);
  }
  std::size_t placeOfState(std::int64_t s, std::int64_t d, std::int64_t i) const {
    return static_cast<std::size_t>((row[static_cast<std::size_t>(s)] * channels + d) * before + i);
  }
  // Input p of a sequence, from -before on.
  Number input(std::size_t s, std::int64_t p, std::int64_t d) const {
    if (p >= 0)
      return x[place(first[s] + p, d)];
    return row[s] < 0 ? 0 : state[placeOfState(static_cast<std::int64_t>(s), d, before + p)];
  }
  Number tap(std::int64_t d, std::int64_t back) const {
    return w[static_cast<std::size_t>(d * taps + before - back)];
  }
  Number sum(std::size_t s, std::int64_t p, std::int64_t d) const {
    Number total = b.empty() ? 0 : b[static_cast<std::size_t>(d)];
    for (std::int64_t back = before; back >= 0; --back)
      total += input(s, p - back, d) * tap(d, back);
    return total;
  }
  static Number logistic(Number value) { return 1 / (1 + std::exp(-value)); }
  Number activated(Number value) const {
    return silu ? numbers.store(value) * logistic(numbers.store(value)) : value;
  }
  Number slope(Number value) const {
    return silu ? logistic(value) * (1 + value * logistic(-value)) : 1;
  }

  Array outputs() const {
    Array y(x.size());
    for (std::size_t s = 0; s < first.size(); ++s)
      for (std::int64_t p = 0; p < end[s] - first[s]; ++p)
        for (std::int64_t d = 0; d < channels; ++d)
          y[place(first[s] + p, d)] = activated(sum(s, p, d));
    return y;
  }
  // The last inputs of each sequence.
  Number last(std::size_t s, std::int64_t d, std::int64_t i) const {
    return input(s, end[s] - first[s] - before + i, d);
  }
};

} // namespace

std::vector<HostArray> causal::causalConvReference(const Invocation &call,
                                                   std::span<const HostArray> in,
                                                   Arithmetic arithmetic) {
  return with_arithmetic(in[0].dtype, arithmetic, [&](auto numbers) {
    const Inputs inputs(numbers, call, in, "initial_state");
    const auto y = inputs.outputs();
    const std::int64_t sequences = call.extent("N");
    typename decltype(inputs)::Array final;
    for (std::int64_t s = 0; s < sequences; ++s)
      for (std::int64_t d = 0; d < inputs.channels; ++d)
        for (std::int64_t i = 0; i < inputs.before; ++i)
          final.push_back(inputs.last(static_cast<std::size_t>(s), d, i));
    return outputsOf(call, numbers, y, final);
  });
}

std::vector<HostArray> causal::causalConvUpdateReference(const Invocation &call,
                                                         std::span<const HostArray> in,
                                                         Arithmetic arithmetic) {
  return with_arithmetic(in[0].dtype, arithmetic, [&](auto numbers) {
    Inputs inputs(numbers, call, in, "state");
    if (call.has("indices")) {
      const auto indices = in[call.index("indices")].as<std::int32_t>();
      for (std::size_t s = 0; s < inputs.row.size(); ++s)
        inputs.row[s] = indices[s];
    }
    auto y = inputs.outputs();
    auto state = inputs.state;
    for (std::size_t s = 0; s < inputs.row.size(); ++s) {
      for (std::int64_t d = 0; d < inputs.channels; ++d) {
        if (inputs.row[s] < 0)
          for (std::int64_t t = inputs.first[s]; t < inputs.end[s]; ++t)
            y[inputs.place(t, d)] = 0;
        else
          for (std::int64_t i = 0; i < inputs.before; ++i)
            state[inputs.placeOfState(static_cast<std::int64_t>(s), d, i)] = inputs.last(s, d, i);
      }
    }
    return outputsOf(call, numbers, y, state);
  });
}

std::vector<HostArray> causal::causalConvBackwardReference(const Invocation &call,
                                                           std::span<const HostArray> in,
                                                           Arithmetic arithmetic) {
  return with_arithmetic(in[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const Inputs inputs(numbers, call, in, "initial_state");
    const auto dy = numbers.load(in[call.index("dy")]),
               last = numbers.load(in[call.index("dfinal_state")]);
    const std::int64_t channels = inputs.channels, before = inputs.before;
    std::vector<Number> dx(inputs.x.size()), dw(inputs.w.size()),
        db(static_cast<std::size_t>(channels)), dstate(inputs.state.size());
    for (std::size_t s = 0; s < inputs.first.size(); ++s) {
      const std::int64_t length = inputs.end[s] - inputs.first[s];
      const auto sequence = static_cast<std::int64_t>(s);
      const auto add = [&](std::int64_t p, std::int64_t d, Number gradient) {
        if (p >= 0)
          dx[inputs.place(inputs.first[s] + p, d)] += gradient;
        else if (inputs.row[s] >= 0)
          dstate[inputs.placeOfState(sequence, d, before + p)] += gradient;
      };
      for (std::int64_t d = 0; d < channels; ++d) {
        for (std::int64_t p = 0; p < length; ++p) {
          const Number own = numbers.store(dy[inputs.place(inputs.first[s] + p, d)] *
                                           inputs.slope(numbers.store(inputs.sum(s, p, d))));
          db[static_cast<std::size_t>(d)] += own;
          for (std::int64_t back = 0; back <= before; ++back) {
            dw[static_cast<std::size_t>(d * inputs.taps + before - back)] +=
                own * inputs.input(s, p - back, d);
            add(p - back, d, own * inputs.tap(d, back));
          }
        }
        if (!last.empty())
          for (std::int64_t i = 0; i < before; ++i)
            add(length - before + i, d,
                last[static_cast<std::size_t>((sequence * channels + d) * before + i)]);
      }
    }
    return outputsOf(call, numbers, dx, dw, db, dstate);
  });
}
