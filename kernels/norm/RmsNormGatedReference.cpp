// RMS norms with a gate, and their gradients, on the host.
#include "kernels/norm/Gate.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"

using namespace sectile;
using namespace sectile::gated;

namespace {

template <class Number> Number logistic(Number z) { return 1 / (1 + std::exp(-z)); }
template <class Number> Number gate(Number z, bool silu) {
  return silu ? z * logistic(z) : logistic(z);
}
template <class Number> Number slope(Number z, bool silu) {
  return silu ? logistic(z) * (1 + z * logistic(-z)) : logistic(z) * logistic(-z);
}

} // namespace

std::vector<HostArray> gated::rmsNormGatedReference(const Invocation &call,
                                                    std::span<const HostArray> in,
                                                    Arithmetic arithmetic) {
  const bool silu = isSilu(call), normFirst = isNormFirst(call);
  return with_arithmetic(in[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    auto values = numbers.load(in[0]);
    auto gates = numbers.load(in[1]);
    const auto weight = numbers.load(in[2]);
    const auto eps = static_cast<Number>(call.options.number("eps"));
    std::vector<Number> rstds(static_cast<std::size_t>(elementCount(call.leading)));
    const auto length = static_cast<std::size_t>(call.extent("N"));
    parallelFor(static_cast<std::int64_t>(rstds.size()), [&](std::int64_t row) {
      Number *h = values.data() + static_cast<std::size_t>(row) * length,
             *a = gates.data() + static_cast<std::size_t>(row) * length;
      Number squares = 0;
      for (std::size_t i = 0; i < length; ++i) {
        a[i] = numbers.store(gate(a[i], silu));
        if (!normFirst)
          h[i] = numbers.store(h[i] * a[i]);
        squares += h[i] * h[i];
      }
      const Number rstd = 1 / std::sqrt(squares / static_cast<Number>(length) + eps);
      for (std::size_t i = 0; i < length; ++i) {
        h[i] *= rstd;
        if (!weight.empty())
          h[i] = numbers.store(h[i]) * weight[i];
        if (normFirst)
          h[i] = numbers.store(h[i]) * a[i];
      }
      rstds[static_cast<std::size_t>(row)] = rstd;
    });
    return outputsOf(call, numbers, values, rstds);
  });
}

std::vector<HostArray> gated::rmsNormGatedBackwardReference(const Invocation &call,
                                                            std::span<const HostArray> in,
                                                            Arithmetic arithmetic) {
  const bool silu = isSilu(call), normFirst = isNormFirst(call);
  return with_arithmetic(in[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto values = numbers.load(in[0]), gates = numbers.load(in[1]),
               weight = numbers.load(in[2]), scales = numbers.load(in[3]),
               gradient = numbers.load(in[4]);
    const auto length = static_cast<std::size_t>(call.extent("N"));
    std::vector<Number> dx(values.size()), dz(values.size()), products(values.size());
    parallelFor(static_cast<std::int64_t>(scales.size()), [&](std::int64_t number) {
      const auto row = static_cast<std::size_t>(number);
      const Number scale = scales[row];
      Number along = 0;
      // The gradient of the normalised numbers, and these; of the gradient of w a row's part.
      std::vector<Number> inner(length), normal(length);
      for (std::size_t i = 0; i < length; ++i) {
        const std::size_t at = row * length + i;
        const Number a = numbers.store(gate(gates[at], silu)),
                     h = normFirst ? values[at] : numbers.store(values[at] * a);
        normal[i] = numbers.store(h * scale);
        const Number own = normFirst ? numbers.store(gradient[at] * a) : gradient[at];
        products[at] = numbers.store(own * normal[i]);
        inner[i] = weight.empty() ? own : numbers.store(own * weight[i]);
        along += inner[i] * normal[i];
      }
      along /= static_cast<Number>(length);
      for (std::size_t i = 0; i < length; ++i) {
        const std::size_t at = row * length + i;
        const Number a = numbers.store(gate(gates[at], silu)), slant = slope(gates[at], silu),
                     dh = numbers.store((inner[i] - normal[i] * along) * scale);
        dx[at] = normFirst ? dh : dh * a;
        const Number scaled = weight.empty() ? normal[i] : numbers.store(normal[i] * weight[i]);
        dz[at] = normFirst ? numbers.store(gradient[at] * scaled) * slant
                           : numbers.store(dh * values[at]) * slant;
      }
    });
    std::vector<Number> dw(length);
    for (std::size_t at = 0; at < products.size(); ++at)
      dw[at % length] += products[at];
    return outputsOf(call, numbers, dx, dz, dw);
  });
}
