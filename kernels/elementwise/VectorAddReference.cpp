// Vector addition on the host.
#include "kernels/references/ReferenceArithmetic.h"

using namespace sectile;

HostArray sectile::vectorAddReference(const HostArray &x, const HostArray &y,
                                      Arithmetic arithmetic) {
  return with_arithmetic(x.dtype, arithmetic, [&](auto numbers) {
    auto left = numbers.load(x), right = numbers.load(y);
    for (std::size_t i = 0; i < left.size(); ++i)
      left[i] += right[i];
    return numbers.pack(numbers.result, x.shape, left);
  });
}
