// Appending to a cache on the host.
#include "kernels/references/ReferenceArithmetic.h"
#include "kernels/serving/Append.h"
#include <algorithm>
#include <limits>

using namespace sectile;

Appended sectile::appendReference(const Invocation &call, const std::string &name,
                                  const HostArray &rows, std::span<const HostArray> inputs,
                                  Arithmetic arithmetic) {
  const auto input = [&](const std::string &argument) {
    return call.has(argument) ? &inputs[call.index(argument)] : nullptr;
  };
  const HostArray &cache = *input(name + "_cache"), &slots = *input("slots");
  const HostArray *scale = input(name + "_scale"), *made = input(name + "_scales");
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
    auto fitting = made ? numbers.load(*made) : std::vector<Number>();
    const std::vector<double> places = slots.to_double();
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto slot = static_cast<std::int64_t>(places[static_cast<std::size_t>(t)]);
      if (slot < 0)
        continue;
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t place = (slot / page * heads + h) * page + slot % page;
        const Number *row = from.data() + (t * heads + h) * dims;
        Number divisor = scales[scales.size() == 1 ? 0 : static_cast<std::size_t>(h)];
        if (made) {
          Number largest = 0;
          for (std::int64_t d = 0; d < dims; ++d)
            largest = largerOrNan(largest, std::abs(row[d] / divisor));
          const Number fits = largest == 0 || !codes ? 1
                              : std::isfinite(largest)
                                  ? std::max(largest / static_cast<Number>(most),
                                             static_cast<Number>(std::numeric_limits<float>::min()))
                                  : std::numeric_limits<Number>::quiet_NaN();
          fitting[static_cast<std::size_t>(place)] = fits;
          divisor *= fits;
        }
        for (std::int64_t d = 0; d < dims; ++d) {
          Number value = row[d] / divisor;
          if (codes) {
            if (cache.dtype == DType::int8 && std::isnan(value))
              value = 0;
            value = std::clamp(value, static_cast<Number>(least), static_cast<Number>(most));
          }
          to[static_cast<std::size_t>(place * dims + d)] = value;
        }
      }
    }
    return Appended{numbers.pack(arithmetic == Arithmetic::exact ? DType::float64 : cache.dtype,
                                 cache.shape, to),
                    made ? numbers.pack(numbers.statistics, made->shape, fitting) : HostArray()};
  });
}
