// Appending to a cache on the host.
#include "kernels/references/ReferenceArithmetic.h"
#include "kernels/serving/Append.h"
#include <algorithm>
#include <limits>

using namespace sectile;

HostArray sectile::appendReference(const HostArray &rows, const HostArray &cache,
                                   const HostArray &slots, const HostArray *scale,
                                   Arithmetic arithmetic) {
  const std::int64_t tokens = rows.shape[0], heads = rows.shape[1], dims = rows.shape[2],
                     page = cache.shape[2];
  const bool codes = size_of(cache.dtype) == 1;
  const double most = with_type(cache.dtype,
                                [](auto zero) {
                                  return static_cast<double>(
                                      std::numeric_limits<decltype(zero)>::max());
                                }),
               least = cache.dtype == DType::int8 ? -128 : -most;
  return with_arithmetic(rows.dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto from = numbers.load(rows);
    auto to = numbers.load(cache);
    const auto scales = scale ? numbers.load(*scale) : std::vector<Number>{1};
    const std::vector<double> places = slots.to_double();
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto slot = static_cast<std::int64_t>(places[static_cast<std::size_t>(t)]);
      if (slot < 0)
        continue;
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t d = 0; d < dims; ++d) {
          Number value = from[static_cast<std::size_t>((t * heads + h) * dims + d)];
          value /= scales[scales.size() == 1 ? 0 : static_cast<std::size_t>(h)];
          if (codes) {
            if (cache.dtype == DType::int8 && std::isnan(value))
              value = 0;
            value = std::clamp(value, static_cast<Number>(least), static_cast<Number>(most));
          }
          to[static_cast<std::size_t>(((slot / page * heads + h) * page + slot % page) * dims +
                                      d)] = value;
        }
    }
    return numbers.pack(arithmetic == Arithmetic::exact ? DType::float64 : cache.dtype, cache.shape,
                        to);
  });
}
