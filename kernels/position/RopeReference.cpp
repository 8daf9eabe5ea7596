// Rotary position embedding on the host, with the gains of exposb_attention.
#include "kernels/Parallel.h"
#include "kernels/ReferenceArithmetic.h"
#include "kernels/position/References.h"

using namespace sectile;

namespace {

template <class Numbers> class Row {
public:
  using Number = typename Numbers::Number;

  Row(const Numbers &numbers, const RopeOptions &options, Number *row, std::int64_t position)
      : numbers(numbers), options(options), row(row), position(position) {}

  // As unfused kernels have it: the frequency, the angle and its sine each in Number.
  void rotate() const {
    const std::int64_t pairs = options.rotary / 2;
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const Number frequency =
          1 / std::pow(number(options.theta),
                       static_cast<Number>(2 * pair) / static_cast<Number>(options.rotary));
      const Number angle = static_cast<Number>(position) * frequency;
      const Number c = numbers.store(std::cos(angle)),
                   s = numbers.store((options.back ? -1 : 1) * std::sin(angle));
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

  const Numbers &numbers;
  const RopeOptions &options;
  Number *row;
  std::int64_t position;
};

} // namespace

HostArray sectile::ropeReference(const HostArray &x, const HostArray &positions,
                                 const RopeOptions &options, Arithmetic arithmetic) {
  const std::int64_t heads = x.shape[1], length = x.shape[2], dims = x.shape[3];
  return with_arithmetic(x.dtype, arithmetic, [&](auto numbers) {
    auto values = numbers.load(x);
    parallelFor(x.shape[0] * heads * length, [&](std::int64_t number) {
      const std::int64_t batch = number / length / heads, i = number % length;
      const std::int64_t position =
          positions.shape.empty()
              ? options.offset + i
              : positions.as<std::int32_t>()[static_cast<std::size_t>(batch * length + i)];
      const Row row(numbers, options, values.data() + number * dims, position);
      if (options.gains && options.back)
        row.weigh(*options.gains, dims);
      row.rotate();
      if (options.gains && !options.back)
        row.weigh(*options.gains, dims);
    });
    return numbers.pack(numbers.result, x.shape, values);
  });
}
