// Rotary position embedding on the host.
#include "kernels/Parallel.h"
#include "kernels/position/References.h"
#include "kernels/position/RotaryReference.h"

using namespace sectile;

HostArray sectile::ropeReference(const HostArray &x, const HostArray &positions,
                                 const RopeOptions &options, Arithmetic arithmetic) {
  const std::int64_t heads = x.shape[1], length = x.shape[2], dims = x.shape[3];
  return with_arithmetic(x.dtype, arithmetic, [&](auto numbers) {
    auto values = numbers.load(x);
    const RotaryLayout layout{options.interleaved, options.theta, options.rotary};
    parallelFor(x.shape[0] * heads * length, [&](std::int64_t row) {
      const std::int64_t batch = row / length / heads, i = row % length;
      const std::int64_t position =
          positions.shape.empty()
              ? options.offset + i
              : positions.as<std::int32_t>()[static_cast<std::size_t>(batch * length + i)];
      rotateRow(numbers, values.data() + row * dims, position, layout, options.back ? -1 : 1);
    });
    return numbers.pack(numbers.result, x.shape, values);
  });
}
