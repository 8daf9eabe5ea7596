// Merging partial attention on the host.
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include "kernels/serving/References.h"
#include <cmath>
#include <limits>

using namespace sectile;

AttentionResult sectile::mergeReference(const HostArray &o, const HostArray &lse,
                                        Arithmetic arithmetic) {
  const std::int64_t parts = o.shape[0], width = o.shape[4];
  const std::int64_t rows = o.shape[1] * o.shape[2] * o.shape[3];
  return with_arithmetic(o.dtype, arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    constexpr Number infinity = std::numeric_limits<Number>::infinity();
    const auto states = numbers.load(o), logs = numbers.load(lse);
    std::vector<Number> output(static_cast<std::size_t>(rows * width)),
        merged(static_cast<std::size_t>(rows), -infinity);
    parallelFor(rows, [&](std::int64_t row) {
      auto log = [&](std::int64_t part) {
        return logs[static_cast<std::size_t>(part * rows + row)];
      };
      Number largest = -infinity, sum = 0;
      for (std::int64_t part = 0; part < parts; ++part)
        largest = largerOrNan(largest, log(part));
      for (std::int64_t part = 0; part < parts; ++part)
        if (log(part) != -infinity)
          sum += std::exp(log(part) - largest);
      if (sum == 0)
        return;
      merged[static_cast<std::size_t>(row)] = largest + std::log(sum);
      Number *out = output.data() + row * width;
      for (std::int64_t part = 0; part < parts; ++part) {
        if (log(part) == -infinity)
          continue;
        const Number weight = numbers.store(std::exp(log(part) - largest) / sum);
        const Number *state = states.data() + (part * rows + row) * width;
        for (std::int64_t d = 0; d < width; ++d)
          out[d] += weight * state[d];
      }
    });
    return AttentionResult{
        numbers.pack(numbers.result, {o.shape.begin() + 1, o.shape.end()}, output),
        numbers.pack(numbers.statistics, {lse.shape.begin() + 1, lse.shape.end()}, merged)};
  });
}
