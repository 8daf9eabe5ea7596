// Chunked mean pooling and its gradient on the host.
#include "kernels/pooling/Family.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <algorithm>

using namespace sectile;

namespace {

// Calls each(number, start, end) for the chunks of all sequences in order.
template <class Each> void forChunks(const Invocation &call, const HostArray &bounds, Each &&each) {
  const std::int64_t chunk = call.options.integer("chunk");
  std::vector<std::int64_t> ends{0, call.extent("T")};
  if (call.has("cu_seqlens"))
    ends.assign(bounds.as<std::int32_t>().begin(), bounds.as<std::int32_t>().end());
  std::int64_t number = 0;
  for (std::size_t s = 0; s + 1 < ends.size(); ++s)
    for (std::int64_t start = ends[s]; start < ends[s + 1]; start += chunk)
      each(number++, start, std::min(start + chunk, ends[s + 1]));
}

} // namespace

std::vector<HostArray> sectile::chunkMeanPoolReference(const Invocation &call,
                                                       std::span<const HostArray> inputs,
                                                       Arithmetic arithmetic) {
  return with_arithmetic(inputs[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto x = numbers.load(inputs[0]);
    const std::int64_t batches = call.extent("B"), length = call.extent("T"),
                       chunks = call.extent("C"), width = call.extent("H") * call.extent("D");
    std::vector<Number> y(static_cast<std::size_t>(batches * chunks * width));
    for (std::int64_t b = 0; b < batches; ++b)
      forChunks(call, inputs[1], [&](std::int64_t number, std::int64_t start, std::int64_t end) {
        for (std::int64_t d = 0; d < width && number < chunks; ++d) {
          Number sum = 0;
          for (std::int64_t t = start; t < end; ++t)
            sum += x[static_cast<std::size_t>((b * length + t) * width + d)];
          y[static_cast<std::size_t>((b * chunks + number) * width + d)] =
              numbers.store(sum) / static_cast<Number>(end - start);
        }
      });
    return outputsOf(call, numbers, y);
  });
}

std::vector<HostArray> sectile::chunkMeanPoolBackwardReference(const Invocation &call,
                                                               std::span<const HostArray> inputs,
                                                               Arithmetic arithmetic) {
  return with_arithmetic(inputs[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto dy = numbers.load(inputs[2]);
    const std::int64_t batches = call.extent("B"), length = call.extent("T"),
                       chunks = call.extent("C"), width = call.extent("H") * call.extent("D");
    std::vector<Number> dx(static_cast<std::size_t>(batches * length * width));
    for (std::int64_t b = 0; b < batches; ++b)
      forChunks(call, inputs[1], [&](std::int64_t number, std::int64_t start, std::int64_t end) {
        for (std::int64_t t = start; t < end && number < chunks; ++t)
          for (std::int64_t d = 0; d < width; ++d)
            dx[static_cast<std::size_t>((b * length + t) * width + d)] =
                dy[static_cast<std::size_t>((b * chunks + number) * width + d)] /
                static_cast<Number>(end - start);
      });
    return outputsOf(call, numbers, dx);
  });
}
