// Rotary position embedding on the host, with the gains of exposb_attention.
#include "kernels/position/References.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <algorithm>
#include <numbers>

using namespace sectile;

namespace {

template <class Numbers> class Row {
public:
  using Number = typename Numbers::Number;

  Row(const Numbers &numbers, const RotationOptions &options, Number *row, std::int64_t position)
      : numbers(numbers), options(options), row(row), position(position) {}

  // As unfused kernels have it: the frequency, the angle and its sine each in Number.
  void rotate() const {
    const Number base = theta(), magnitude = number(options.scaling.magnitude());
    turn([&](std::int64_t pair) {
      const Number frequency = scaled(
          1 / std::pow(base, static_cast<Number>(2 * pair) / static_cast<Number>(options.rotary)),
          static_cast<double>(pair));
      const Number angle = static_cast<Number>(position) * frequency;
      return std::pair(std::cos(angle) * magnitude,
                       (options.back ? -1 : 1) * std::sin(angle) * magnitude);
    });
  }
  // By angles whose cosines, and behind them sines, are in a row of a table.
  void rotateBy(const std::vector<Number> &table) const {
    const std::int64_t first = position * options.rotary;
    turn([&](std::int64_t pair) {
      const auto at = static_cast<std::size_t>(first + pair);
      return std::pair(table[at], table[at + static_cast<std::size_t>(options.rotary / 2)]);
    });
  }
  template <class Angle> void turn(Angle &&angle) const {
    const std::int64_t pairs = options.rotary / 2;
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const auto [cosine, sine] = angle(pair);
      const Number c = numbers.store(cosine), s = numbers.store(sine);
      Number &x = row[options.interleaved ? 2 * pair : pair],
             &y = row[options.interleaved ? 2 * pair + 1 : pair + pairs];
      const Number turned = numbers.store(numbers.store(x * c) - numbers.store(y * s));
      y = numbers.store(numbers.store(y * c) + numbers.store(x * s));
      x = turned;
    }
  }
  void weigh(const RowGains &gains, std::int64_t width) const {
    const Number boost =
        numbers.store(1 + number(gains.boost) *
                              std::exp(number(-gains.boostDecay) * static_cast<Number>(position)));
    for (std::int64_t d = 0; d < width; ++d) {
      const Number away = (static_cast<Number>(d) - number(gains.center)) / number(gains.width);
      const Number gain =
          numbers.store(number(gains.base) + number(gains.peak) * std::exp(-away * away / 2));
      row[d] = numbers.store(numbers.store(row[d] * gain) * boost);
    }
  }

private:
  static Number number(double value) { return static_cast<Number>(value); }

  // The base of the frequencies.
  Number theta() const {
    const FrequencyScaling &scaling = options.scaling;
    const double length = static_cast<double>(scaling.length.value_or(0)),
                 r = static_cast<double>(options.rotary);
    if (scaling.kind != FrequencyScaling::dynamic || length <= scaling.original || r == 2)
      return number(options.theta);
    return number(options.theta) *
           std::pow(number(scaling.factor * length / scaling.original - (scaling.factor - 1)),
                    number(r / (r - 2)));
  }
  // A frequency as models' own code scales it.
  Number scaled(Number f, double pair) const {
    const FrequencyScaling &scaling = options.scaling;
    const Number slow = f / number(scaling.factor);
    switch (scaling.kind) {
    case FrequencyScaling::linear:
      return slow;
    case FrequencyScaling::llama3: {
      const Number wavelength = 2 * std::numbers::pi_v<Number> / f,
                   original = number(scaling.original), low = number(scaling.low),
                   high = number(scaling.high);
      if (wavelength < original / high)
        return f;
      if (wavelength > original / low)
        return slow;
      const Number s = (original / wavelength - low) / (high - low);
      return (1 - s) * slow + s * f;
    }
    case FrequencyScaling::yarn: {
      const auto end = [&](double rotations, auto round) {
        const double at = scaling.pairOf(rotations, options.theta, options.rotary);
        return std::clamp(scaling.rounds ? round(at) : at, 0.0,
                          static_cast<double>(options.rotary - 1));
      };
      const double first = end(scaling.fast, [](double x) { return std::floor(x); });
      double last = end(scaling.slow, [](double x) { return std::ceil(x); });
      if (first == last)
        last += 0.001;
      const Number ramp = number(std::clamp((pair - first) / (last - first), 0.0, 1.0));
      return f * (1 - ramp) + slow * ramp;
    }
    case FrequencyScaling::dynamic:
    case FrequencyScaling::none:
      break;
    }
    return f;
  }

  const Numbers &numbers;
  const RotationOptions &options;
  Number *row;
  std::int64_t position;
};

} // namespace

HostArray sectile::ropeReference(const HostArray &x, const HostArray &positions,
                                 const RotationOptions &options, Arithmetic arithmetic,
                                 const HostArray &table) {
  const std::int64_t heads = x.shape[1], length = x.shape[2], dims = x.shape[3];
  const auto places = positions.shape.empty() ? std::vector<double>() : positions.to_double();
  return with_arithmetic(x.dtype, arithmetic, [&](auto numbers) {
    auto values = numbers.load(x);
    const auto angles = numbers.load(table);
    parallelFor(x.shape[0] * heads * length, [&](std::int64_t number) {
      const std::int64_t batch = number / length / heads, i = number % length;
      const std::int64_t position =
          places.empty()
              ? options.offset + i
              : static_cast<std::int64_t>(places[static_cast<std::size_t>(batch * length + i)]);
      const Row row(numbers, options, values.data() + number * dims, position);
      if (options.gains && options.back)
        row.weigh(*options.gains, dims);
      if (angles.empty())
        row.rotate();
      else
        row.rotateBy(angles);
      if (options.gains && !options.back)
        row.weigh(*options.gains, dims);
    });
    return numbers.pack(numbers.result, x.shape, values);
  });
}
