// rope_attention and exposb_attention on the host.
#include "kernels/position/RotaryReference.h"
#include "kernels/position/SchemeReference.h"

using namespace sectile;

namespace {

template <class Numbers> class Rotary {
public:
  using Number = typename Numbers::Number;

  Rotary(const Numbers &numbers, const RotaryOptions &options, std::int64_t width)
      : numbers(numbers), options(options),
        layout{options.interleaved, options.theta, options.rotary}, width(width) {}

  // Rows of heads of `length`, whose first has position `offset`.
  void turn(std::vector<Number> &rows, std::int64_t length, std::int64_t offset) const {
    each(rows, length, offset, [&](Number *row, std::int64_t position) {
      rotateRow(numbers, row, position, layout);
      weigh(row, position);
    });
  }
  void turnBack(std::vector<Number> &rows, std::int64_t length, std::int64_t offset) const {
    each(rows, length, offset, [&](Number *row, std::int64_t position) {
      for (std::int64_t d = 0; d < width; ++d)
        row[d] = numbers.store(row[d]);
      weigh(row, position);
      rotateRow(numbers, row, position, layout, -1);
    });
  }
  Number factor(std::int64_t position, std::int64_t key) const {
    return numbers.store(
        number(options.nearBase) +
        number(options.nearPeak) *
            std::exp(number(-options.nearDecay) * static_cast<Number>(std::abs(position - key))));
  }

private:
  static Number number(double value) { return static_cast<Number>(value); }

  template <class Body>
  void each(std::vector<Number> &rows, std::int64_t length, std::int64_t offset,
            Body &&body) const {
    for (std::size_t row = 0; row < rows.size() / static_cast<std::size_t>(width); ++row)
      body(rows.data() + static_cast<std::int64_t>(row) * width,
           static_cast<std::int64_t>(row) % length + offset);
  }
  void weigh(Number *row, std::int64_t position) const {
    if (!options.expo)
      return;
    const Number boost =
        numbers.store(1 + number(options.boost) * std::exp(number(-options.boostDecay) *
                                                           static_cast<Number>(position)));
    for (std::int64_t d = 0; d < width; ++d) {
      const Number away =
          (static_cast<Number>(d) - number(options.gainCenter)) / number(options.gainWidth);
      const Number gain = numbers.store(number(options.gainBase) +
                                        number(options.gainPeak) * std::exp(-away * away / 2));
      row[d] = numbers.store(numbers.store(row[d] * gain) * boost);
    }
  }

  const Numbers &numbers;
  const RotaryOptions &options;
  const RotaryLayout layout;
  const std::int64_t width;
};

// f(numbers, rotary, attention) with queries and keys turned.
template <class Function>
auto withAttention(const HostArray &q, const HostArray &k, const HostArray &v,
                   const RotaryOptions &options, Arithmetic arithmetic, Function &&f) {
  return with_arithmetic(q.dtype, arithmetic, [&](auto numbers) {
    const Rotary rotary(numbers, options, q.shape[3]);
    SchemeReference attention(numbers, q, v, options.scheme);
    attention.q = {numbers.load(q)};
    attention.k = {numbers.load(k)};
    rotary.turn(attention.q[0], attention.queries, attention.offset());
    rotary.turn(attention.k[0], attention.keys, 0);
    if (options.expo)
      attention.factor = [&](std::int64_t i, std::int64_t j) { return rotary.factor(i, j); };
    return f(numbers, rotary, attention);
  });
}

} // namespace

AttentionResult sectile::rotaryAttentionReference(const HostArray &q, const HostArray &k,
                                                  const HostArray &v, const RotaryOptions &options,
                                                  Arithmetic arithmetic) {
  return withAttention(
      q, k, v, options, arithmetic, [&](const auto &numbers, const auto &, const auto &attention) {
        typename std::remove_cvref_t<decltype(attention)>::Values output, logs;
        attention.forward(output, logs);
        return AttentionResult{
            numbers.pack(numbers.result, q.shape, output),
            numbers.pack(numbers.statistics, {q.shape[0], q.shape[1], q.shape[2]}, logs)};
      });
}

PositionGradients sectile::rotaryAttentionBackwardReference(std::span<const HostArray> inputs,
                                                            const RotaryOptions &options,
                                                            Arithmetic arithmetic) {
  const HostArray &q = inputs[0], &k = inputs[1], &v = inputs[2];
  return withAttention(
      q, k, v, options, arithmetic,
      [&](const auto &numbers, const auto &rotary, const auto &attention) {
        auto gradients = attention.backward(numbers.load(inputs[3]), numbers.load(inputs[4]),
                                            numbers.load(inputs[5]));
        rotary.turnBack(gradients.q[0], attention.queries, attention.offset());
        rotary.turnBack(gradients.k[0], attention.keys, 0);
        return PositionGradients{numbers.pack(numbers.result, q.shape, gradients.q[0]),
                                 numbers.pack(numbers.result, k.shape, gradients.k[0]),
                                 numbers.pack(numbers.result, v.shape, gradients.v)};
      });
}
