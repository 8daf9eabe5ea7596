// Merging partial attention on the host.
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include "kernels/serving/References.h"
#include <cmath>
#include <limits>

using namespace sectile;

std::vector<HostArray> sectile::mergeReference(const Invocation &call,
                                               std::span<const HostArray> in,
                                               Arithmetic arithmetic) {
  const std::int64_t parts = call.extent("P"), width = call.extent("D"),
                     rows = call.extent("B") * call.extent("Hq") * call.extent("Sq");
  return with_arithmetic(in[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    constexpr Number infinity = std::numeric_limits<Number>::infinity();
    const auto states = numbers.load(in[0]), logs = numbers.load(in[1]);
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
    return outputsOf(call, numbers, output, merged);
  });
}
