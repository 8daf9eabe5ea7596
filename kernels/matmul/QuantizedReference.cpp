// Products with quantized operands on the host.
#include "kernels/matmul/ReferenceProducts.h"
#include <algorithm>

using namespace sectile;

References sectile::quantizedMatmulReference(const Invocation &call,
                                             std::span<const HostArray> inputs,
                                             Arithmetic arithmetic) {
  const HostArray &codes = inputs[1];
  const std::int64_t k = call.extent("K"), n = call.extent("N"), runs = call.extent("S"),
                     group = call.options.integer("group");
  const bool packed = codes.dtype == DType::uint8;
  return with_arithmetic(call.dtype("c"), arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto left = numbers.load(inputs[0]), scales = numbers.load(inputs[2]),
               zeros = numbers.load(inputs[3]);
    // [N, K]
    std::vector<Number> weights(static_cast<std::size_t>(n * k));
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t p = 0; p < k; ++p) {
        const auto run = static_cast<std::size_t>(j * runs + p / group),
                   at = static_cast<std::size_t>(j * k + p);
        const int code = packed ? codes.as<std::uint8_t>()[at / 2] >> (p % 2 * 4) & 15
                                : codes.as<std::int8_t>()[at];
        const Number origin = zeros.empty() ? Number(packed ? 8 : 0) : zeros[run];
        weights[at] = numbers.store((static_cast<Number>(code) - origin) * scales[run]);
      }
    return activatedSums(numbers, call, inputs[4], [&](std::int64_t i, std::int64_t j) {
      return productOfRows<Number>(left, i, weights, j, k);
    });
  });
}

References sectile::scaledMatmulReference(const Invocation &call, std::span<const HostArray> inputs,
                                          Arithmetic arithmetic) {
  const std::int64_t k = call.extent("K"), n = call.extent("N"), runs = call.extent("Sk"),
                     blocks = call.extent("Sn"), depth = call.options.integer("block_k"),
                     width = call.options.integer("block_n");
  const bool promoted = arithmetic == Arithmetic::own && isFp8(inputs[0].dtype),
             shared = inputs[2].shape[0] == 1;
  return with_arithmetic(call.dtype("c"), arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto left = numbers.load(inputs[0]), right = numbers.load(inputs[1]),
               rows = numbers.load(inputs[2]), columns = numbers.load(inputs[3]);
    return activatedSums(numbers, call, inputs[4], [&](std::int64_t i, std::int64_t j) {
      Number sum = 0;
      auto rowScale = [&](std::int64_t run) {
        return rows[static_cast<std::size_t>((shared ? 0 : i) * runs + run)];
      };
      auto columnScale = [&](std::int64_t run) {
        return columns[static_cast<std::size_t>(run * blocks + j / width)];
      };
      if constexpr (std::is_same_v<Number, float>)
        for (std::int64_t run = 0; promoted && run < runs; ++run) {
          float codes = 0;
          addProductsOfFp8(rowOf(left, i, k)
                               .subspan(static_cast<std::size_t>(run * depth),
                                        static_cast<std::size_t>(std::min(depth, k - run * depth))),
                           right.data() + run * depth * n + j, n, {&codes, 1});
          sum += codes * rowScale(run) * columnScale(run);
        }
      for (std::int64_t p = 0; p < k && !promoted; ++p)
        sum += left[static_cast<std::size_t>(i * k + p)] * rowScale(p / depth) *
               (right[static_cast<std::size_t>(p * n + j)] * columnScale(p / depth));
      return sum;
    });
  });
}
