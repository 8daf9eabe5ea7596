// Products with quantized operands on the host.
#include "kernels/Parallel.h"
#include "kernels/ReferenceArithmetic.h"
#include "kernels/matmul/Gemm.h"
#include <algorithm>

using namespace sectile;

HostArray sectile::quantizedMatmulReference(const Invocation &call,
                                            std::span<const HostArray> inputs,
                                            Arithmetic arithmetic) {
  const HostArray &codes = inputs[1], &zeros = inputs[3], &bias = inputs[4];
  const std::int64_t m = call.extent("M"), k = call.extent("K"), n = call.extent("N"),
                     runs = call.extent("S"), group = call.options.integer("group");
  const bool packed = codes.dtype == DType::uint8;
  const Activation activation = activationOf(call.options.choice("activation"));
  return with_arithmetic(call.dtype("c"), arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    auto loadIf = [&](const HostArray &array) {
      return array.data.empty() ? std::vector<Number>() : numbers.load(array);
    };
    const auto left = numbers.load(inputs[0]), scales = numbers.load(inputs[2]),
               zero = loadIf(zeros), biases = loadIf(bias);
    // [N, K]
    std::vector<Number> weights(static_cast<std::size_t>(n * k));
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t p = 0; p < k; ++p) {
        const auto run = static_cast<std::size_t>(j * runs + p / group),
                   at = static_cast<std::size_t>(j * k + p);
        const int code = packed ? codes.as<std::uint8_t>()[at / 2] >> (p % 2 * 4) & 15
                                : codes.as<std::int8_t>()[at];
        const Number origin = zero.empty() ? Number(packed ? 8 : 0) : zero[run];
        weights[at] = numbers.store((static_cast<Number>(code) - origin) * scales[run]);
      }
    std::vector<Number> result(static_cast<std::size_t>(m * n));
    parallelFor(m, [&](std::int64_t i) {
      for (std::int64_t j = 0; j < n; ++j) {
        Number sum = 0;
        for (std::int64_t p = 0; p < k; ++p)
          sum += left[static_cast<std::size_t>(i * k + p)] *
                 weights[static_cast<std::size_t>(j * k + p)];
        sum = numbers.store(sum);
        if (!biases.empty())
          sum = numbers.store(sum + biases[static_cast<std::size_t>(j)]);
        result[static_cast<std::size_t>(i * n + j)] = activate(activation, sum);
      }
    });
    return numbers.pack(numbers.result, {m, n}, result);
  });
}

HostArray sectile::scaledMatmulReference(const Invocation &call, std::span<const HostArray> inputs,
                                         Arithmetic arithmetic) {
  const std::int64_t m = call.extent("M"), k = call.extent("K"), n = call.extent("N"),
                     runs = call.extent("Sk"), blocks = call.extent("Sn"),
                     depth = call.options.integer("block_k"),
                     width = call.options.integer("block_n");
  const Activation activation = activationOf(call.options.choice("activation"));
  const bool promoted = arithmetic == Arithmetic::own && isFp8(inputs[0].dtype),
             shared = inputs[2].shape[0] == 1;
  return with_arithmetic(call.dtype("c"), arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    const auto left = numbers.load(inputs[0]), right = numbers.load(inputs[1]),
               rows = numbers.load(inputs[2]), columns = numbers.load(inputs[3]);
    std::vector<Number> biases;
    if (!inputs[4].data.empty())
      biases = numbers.load(inputs[4]);
    std::vector<Number> result(static_cast<std::size_t>(m * n));
    parallelFor(m, [&](std::int64_t i) {
      for (std::int64_t j = 0; j < n; ++j) {
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
            addProductsOfFp8(
                std::span(left).subspan(static_cast<std::size_t>(i * k + run * depth),
                                        static_cast<std::size_t>(std::min(depth, k - run * depth))),
                right.data() + run * depth * n + j, n, {&codes, 1});
            sum += codes * rowScale(run) * columnScale(run);
          }
        for (std::int64_t p = 0; p < k && !promoted; ++p)
          sum += left[static_cast<std::size_t>(i * k + p)] * rowScale(p / depth) *
                 (right[static_cast<std::size_t>(p * n + j)] * columnScale(p / depth));
        sum = numbers.store(sum);
        if (!biases.empty())
          sum = numbers.store(sum + biases[static_cast<std::size_t>(j)]);
        result[static_cast<std::size_t>(i * n + j)] = activate(activation, sum);
      }
    });
    return numbers.pack(numbers.result, {m, n}, result);
  });
}
