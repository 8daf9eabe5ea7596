// Quantization on the host.
#include "kernels/blocks/Activations.h"
#include "kernels/quantize/Granularity.h"
#include "kernels/references/Draw.h"
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

ArgumentRow sectile::givenScale() {
  return {"scale?: [1] f32",
          "the scale of all codes, measured beforehand; left out: scales follow from what is "
          "quantised",
          {.sample = sampleEach([](const Invocation &, auto &random) {
             return 0.01 + 0.001 * static_cast<double>(random() % 100);
           })}};
}

OptionRow sectile::largestMagnitudeOption() {
  return {
      "scale_ub: number = 0 from 0 e.g. 2",
      "the largest magnitude that scales are made for: what is beyond it gets the largest code; "
      "0: any"};
}

void sectile::checkScales(const Invocation &call) {
  const std::int64_t block = call.options.integer("block");
  if (block != 32 && block != 64 && block != 128)
    refuse(call, "option 'block' is 32, 64 or 128, not ", block);
  if (!call.has("scale"))
    return;
  if (call.options.choice("scale_format") != "f32")
    refuse(call, "scale is given and stays as it is: scale_format must be f32, not ",
           call.options.choice("scale_format"));
  if (call.options.number("scale_ub") > 0)
    refuse(call, "scale is given: scale_ub bounds only scales that follow from the numbers");
}

void sectile::checkGivenScale(const Invocation &call, std::span<const HostArray> inputs) {
  if (!call.has("scale"))
    return;
  const double scale = inputs[call.index("scale")].to_double()[0];
  if (!(scale > 0 && std::isfinite(scale)))
    refuse(call, "scale must be a positive number, but is ", std::to_string(scale));
}

ScaleLimits sectile::limitsOf(const Invocation &call, std::span<const HostArray> inputs) {
  ScaleLimits limits{.given = {}, .most = call.options.number("scale_ub")};
  if (call.has("scale"))
    limits.given = inputs[call.index("scale")].to_double()[0];
  return limits;
}

std::vector<HostArray> sectile::quantizedReference(const HostArray &x, const CodeFormat &format,
                                                   Arithmetic arithmetic) {
  const auto [block, all, code, scaleFormat, limits] = format;
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
      if (limits.given) {
        scale = static_cast<Number>(*limits.given);
        continue;
      }
      if (limits.most > 0 && scale > static_cast<Number>(limits.most))
        scale = static_cast<Number>(limits.most);
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
        const Number end = std::copysign(static_cast<Number>(most), value);
        if (std::abs(value) > static_cast<Number>(most))
          value = end;
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
                          call.options.choice("scale_format"),
                          limitsOf(call, inputs)};
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
