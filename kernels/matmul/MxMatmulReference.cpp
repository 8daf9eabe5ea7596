// Products of the microscaling formats on the host.
#include "kernels/matmul/ReferenceProducts.h"
#include <cmath>
#include <limits>

using namespace sectile;

double sectile::decodeE2m1(unsigned code) {
  static constexpr double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code & 8 ? -magnitudes[code & 7] : magnitudes[code & 7];
}

double sectile::decodeE8m0(unsigned code) {
  return code == 255 ? std::numeric_limits<double>::quiet_NaN()
                     : std::ldexp(1.0, static_cast<int>(code) - 127);
}

namespace {

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
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] *= decodeE8m0(exponents[i / k * blocks + i % k / 32]);
  return numbers;
}

} // namespace

References sectile::mxMatmulReference(const Invocation &call, std::span<const HostArray> inputs,
                                      Arithmetic arithmetic) {
  const auto left = decoded(inputs[0], inputs[2]), right = decoded(inputs[1], inputs[3]);
  const std::int64_t m = call.extent("M"), k = m ? static_cast<std::int64_t>(left.size()) / m : 0;
  return with_arithmetic(call.dtype("c"), arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    return activatedSums(numbers, call, inputs[4], [&](std::int64_t i, std::int64_t j) {
      return productOfRows<Number>(left, i, right, j, k);
    });
  });
}
