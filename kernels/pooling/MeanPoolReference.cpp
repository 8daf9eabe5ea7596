// Mean pooling and its gradient on the host.
#include "kernels/pooling/Family.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <algorithm>

using namespace sectile;

namespace {

// For each position of each batch, whether it counts.
std::vector<char> keptPositions(const Invocation &call, const HostArray &mask) {
  std::vector<char> kept(static_cast<std::size_t>(call.extent("B") * call.extent("T")), 1);
  if (call.has("mask"))
    for (std::size_t i = 0; i < kept.size(); ++i)
      kept[i] = mask.as<bool>()[i];
  return kept;
}

} // namespace

std::vector<HostArray> sectile::meanPoolReference(const Invocation &call,
                                                  std::span<const HostArray> inputs,
                                                  Arithmetic arithmetic) {
  return with_arithmetic(inputs[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto x = numbers.load(inputs[0]);
    const auto kept = keptPositions(call, inputs[1]);
    const auto batches = static_cast<std::size_t>(call.extent("B")),
               length = static_cast<std::size_t>(call.extent("T")),
               width = static_cast<std::size_t>(call.extent("D"));
    std::vector<Number> y(batches * width);
    for (std::size_t b = 0; b < batches; ++b) {
      Number count = 0;
      for (std::size_t t = 0; t < length; ++t) {
        if (!kept[b * length + t])
          continue;
        ++count;
        for (std::size_t d = 0; d < width; ++d)
          y[b * width + d] += x[(b * length + t) * width + d];
      }
      for (std::size_t d = 0; d < width; ++d)
        y[b * width + d] = numbers.store(y[b * width + d]) / std::max<Number>(count, 1);
    }
    return outputsOf(call, numbers, y);
  });
}

std::vector<HostArray> sectile::meanPoolBackwardReference(const Invocation &call,
                                                          std::span<const HostArray> inputs,
                                                          Arithmetic arithmetic) {
  return with_arithmetic(inputs[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto kept = keptPositions(call, inputs[1]);
    const auto dy = numbers.load(inputs[2]);
    const auto batches = static_cast<std::size_t>(call.extent("B")),
               length = static_cast<std::size_t>(call.extent("T")),
               width = static_cast<std::size_t>(call.extent("D"));
    std::vector<Number> dx(batches * length * width);
    for (std::size_t b = 0; b < batches; ++b) {
      const auto first = kept.begin() + static_cast<std::ptrdiff_t>(b * length);
      const auto count = std::count(first, first + static_cast<std::ptrdiff_t>(length), 1);
      for (std::size_t t = 0; t < length; ++t)
        for (std::size_t d = 0; d < width && kept[b * length + t]; ++d)
          dx[(b * length + t) * width + d] = dy[b * width + d] / static_cast<Number>(count);
    }
    return outputsOf(call, numbers, dx);
  });
}
