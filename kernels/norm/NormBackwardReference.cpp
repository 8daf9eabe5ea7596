// Gradients of the normalisations on the host.
#include "kernels/norm/NormReferences.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"

using namespace sectile;

NormBackwardResult sectile::normBackwardReference(const HostArray &x, const HostArray &w,
                                                  const HostArray *mean, const HostArray &rstd,
                                                  const HostArray &dy, const HostArray *dh,
                                                  Arithmetic arithmetic) {
  return with_arithmetic(x.dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    auto values = numbers.load(x), weight = numbers.load(w), gradient = numbers.load(dy);
    const auto scales = numbers.load(rstd);
    const auto means = mean ? numbers.load(*mean) : std::vector<Number>(scales.size());
    const auto added = dh ? numbers.load(*dh) : std::vector<Number>();
    const auto length = static_cast<std::size_t>(x.shape.back());
    const Shape columns{x.shape.back()};
    auto dx = values;
    // To the normalised rows, which dw needs.
    parallelFor(static_cast<std::int64_t>(scales.size()), [&](std::int64_t number) {
      const auto row = static_cast<std::size_t>(number);
      Number *n = values.data() + row * length, *to = dx.data() + row * length;
      const Number *dy = gradient.data() + row * length;
      Number along = 0, across = 0;
      for (std::size_t i = 0; i < length; ++i) {
        n[i] = numbers.store((n[i] - means[row]) * scales[row]);
        to[i] = weight.empty() ? dy[i] : numbers.store(dy[i] * weight[i]);
        along += to[i] * n[i];
        across += to[i];
      }
      along /= static_cast<Number>(length);
      across = mean ? across / static_cast<Number>(length) : 0;
      for (std::size_t i = 0; i < length; ++i)
        to[i] = numbers.store((to[i] - across - n[i] * along) * scales[row]) +
                (dh ? added[row * length + i] : 0);
    });
    std::vector<Number> dw(length), db(length);
    for (std::size_t row = 0; row < scales.size(); ++row)
      for (std::size_t i = 0; i < length; ++i) {
        dw[i] += numbers.store(gradient[row * length + i] * values[row * length + i]);
        db[i] += gradient[row * length + i];
      }
    return NormBackwardResult{numbers.pack(numbers.result, x.shape, dx),
                              numbers.pack(numbers.result, columns, dw),
                              numbers.pack(numbers.result, columns, db)};
  });
}
