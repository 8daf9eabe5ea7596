// Quantization on the host.
#include "kernels/blocks/Activations.h"
#include "kernels/quantize/Granularity.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <limits>

using namespace sectile;

namespace {

template <class Number> Number powerOfTwoAtLeast(Number value) {
  int exponent = 0;
  const Number fraction = std::frexp(value, &exponent); // in [0.5, 1)
  return std::ldexp(Number(1), fraction == Number(0.5) ? exponent - 1 : exponent);
}

} // namespace

std::vector<HostArray> sectile::quantizedReference(const HostArray &x, const CodeFormat &format,
                                                   Arithmetic arithmetic) {
  const auto [block, all, code, scaleFormat] = format;
  const std::int64_t m = x.shape[0], k = x.shape[1], down = all.rows, across = all.columns;
  const double most = with_type(code, [](auto zero) {
    return static_cast<double>(std::numeric_limits<decltype(zero)>::max());
  });
  return with_arithmetic(x.dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    auto values = numbers.load(x);
    auto scaleAt = [&](std::int64_t i, std::int64_t j) {
      return static_cast<std::size_t>(i / block.rows * across + j / block.columns);
    };
    std::vector<Number> scales(static_cast<std::size_t>(down * across));
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < k; ++j) {
        Number &largest = scales[scaleAt(i, j)];
        largest = largerOrNan(largest, std::abs(values[static_cast<std::size_t>(i * k + j)]));
      }
    for (Number &scale : scales) {
      if (!std::isfinite(scale)) {
        scale = std::numeric_limits<Number>::quiet_NaN();
        continue;
      }
      scale = std::max(scale / static_cast<Number>(most), static_cast<Number>(leastScale));
      if (scaleFormat != "f32")
        scale = powerOfTwoAtLeast(scale);
    }
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < k; ++j) {
        Number &value = values[static_cast<std::size_t>(i * k + j)];
        value *= 1 / scales[scaleAt(i, j)];
        if (code == DType::int8 && std::isnan(value))
          value = 0;
      }
    DType stored = numbers.statistics;
    if (scaleFormat == "e8m0") {
      stored = DType::uint8;
      for (Number &scale : scales)
        scale = std::isnan(scale) ? Number(255) : Number(std::ilogb(scale) + 127);
    }
    return std::vector{
        numbers.pack(arithmetic == Arithmetic::exact ? DType::float64 : code, {m, k}, values),
        numbers.pack(stored, {down, across}, scales)};
  });
}

std::vector<HostArray> sectile::quantizeReference(const Invocation &call,
                                                  std::span<const HostArray> inputs,
                                                  Arithmetic arithmetic) {
  const CodeFormat format{scaleBlockOf(call),
                          {call.extent("Sm"), call.extent("Sk")},
                          call.dtype("y"),
                          call.options.choice("scale_format")};
  if (call.kernel->name != "silu_mul_quantize")
    return quantizedReference(inputs[0], format, arithmetic);
  const HostArray gated = with_arithmetic(inputs[0].dtype, arithmetic, [&](auto numbers) {
    auto values = numbers.load(inputs[0]);
    const auto ups = numbers.load(inputs[1]);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = numbers.store(numbers.store(activate(Activation::silu, values[i])) * ups[i]);
    return numbers.pack(numbers.result, inputs[0].shape, values);
  });
  return quantizedReference(gated, format, arithmetic);
}
