// Dropout on the host.
#include "kernels/elementwise/ElementReferences.h"
#include "kernels/references/ReferenceArithmetic.h"
#include "kernels/references/ReferencePhilox.h"

using namespace sectile;

HostArray sectile::dropoutReference(const HostArray &x, double p, std::uint64_t seed,
                                    Arithmetic arithmetic) {
  return with_arithmetic(x.dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    auto values = numbers.load(x);
    const auto limit = static_cast<float>(p);
    const auto scale = p < 1 ? static_cast<Number>(1 / (1 - p)) : Number{0};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint64_t offset = i / 4;
      const std::uint32_t word =
          philoxWords(seed, {static_cast<std::uint32_t>(offset),
                             static_cast<std::uint32_t>(offset >> 32), 0, 0})[i % 4];
      const bool kept = static_cast<float>(word >> 8) * 0x1p-24f >= limit;
      values[i] = kept ? values[i] * scale : 0;
    }
    return numbers.pack(numbers.result, x.shape, values);
  });
}
