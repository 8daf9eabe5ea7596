// Products of the microscaling formats on the host.
#include "kernels/Parallel.h"
#include "kernels/ReferenceArithmetic.h"
#include "kernels/matmul/Gemm.h"
#include <cmath>
#include <limits>

using namespace sectile;

namespace {

double decodeE2m1(unsigned code) {
  static constexpr double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code & 8 ? -magnitudes[code & 7] : magnitudes[code & 7];
}

// [rows, K], each number with its scale.
std::vector<double> decoded(const HostArray &codes, const HostArray &scales) {
  std::vector<double> numbers;
  if (codes.dtype == DType::uint8)
    for (const unsigned pair : codes.as<std::uint8_t>()) {
      numbers.push_back(decodeE2m1(pair & 15));
      numbers.push_back(decodeE2m1(pair >> 4));
    }
  else
    numbers = codes.to_double();
  const auto blocks = static_cast<std::size_t>(scales.shape[1]);
  const std::size_t k =
      codes.shape[0] ? numbers.size() / static_cast<std::size_t>(codes.shape[0]) : 0;
  const auto exponents = scales.as<std::uint8_t>();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const int code = exponents[i / k * blocks + i % k / 32];
    numbers[i] =
        code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(numbers[i], code - 127);
  }
  return numbers;
}

} // namespace

HostArray sectile::mxMatmulReference(const Invocation &call, std::span<const HostArray> inputs,
                                     Arithmetic arithmetic) {
  const std::int64_t m = call.extent("M"), n = call.extent("N");
  const auto left = decoded(inputs[0], inputs[2]), right = decoded(inputs[1], inputs[3]);
  const std::int64_t k = m ? static_cast<std::int64_t>(left.size()) / m : 0;
  const Activation activation = activationOf(call.options.choice("activation"));
  return with_arithmetic(call.dtype("c"), arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    const auto biases = numbers.load(inputs[4]);
    std::vector<Number> result(static_cast<std::size_t>(m * n));
    parallelFor(m, [&](std::int64_t i) {
      for (std::int64_t j = 0; j < n; ++j) {
        Number sum = 0;
        for (std::int64_t p = 0; p < k; ++p)
          sum += static_cast<Number>(left[static_cast<std::size_t>(i * k + p)]) *
                 static_cast<Number>(right[static_cast<std::size_t>(j * k + p)]);
        sum = numbers.store(sum);
        if (!biases.empty())
          sum = numbers.store(sum + biases[static_cast<std::size_t>(j)]);
        result[static_cast<std::size_t>(i * n + j)] = activate(activation, sum);
      }
    });
    return numbers.pack(numbers.result, {m, n}, result);
  });
}
