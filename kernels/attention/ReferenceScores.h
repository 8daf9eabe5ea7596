// The scores of attention on the host, row by row, with every option: shared by the references of
// the forward and the backward pass.
#pragma once
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include "kernels/references/ReferencePhilox.h"
#include <cmath>
#include <limits>

namespace sectile {

template <class Numbers> class ReferenceScores {
public:
  using Number = typename Numbers::Number;
  static constexpr Number infinity = std::numeric_limits<Number>::infinity();

  const std::int64_t batches, heads, queries, width, kvHeads, keys;
  const Number scale;
  std::vector<Number> sinks; // [Hq, R]
  std::int64_t sinkCount = 0;

  ReferenceScores(const Numbers &numbers, const HostArray &q, const HostArray &k,
                  const AttentionSettings &settings, std::int64_t batch)
      : batches(q.shape[0]), heads(q.shape[1]), queries(q.shape[2]), width(q.shape[3]),
        kvHeads(k.shape[1]), keys(k.shape[2]), scale(static_cast<Number>(settings.scale.value_or(
                                                   1 / std::sqrt(static_cast<double>(width))))),
        numbers(numbers), settings(settings), batch(batch) {
    addOperands(q, k);
    if (settings.farKeys)
      addOperands(*settings.farQueries, *settings.farKeys);
    if (settings.bias)
      bias = numbers.load(*settings.bias);
    if (settings.sinks) {
      sinkCount = settings.sinks->shape[1];
      const auto own = numbers.load(*settings.sinks);
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t r = 0; r < sinkCount; ++r)
          sinks.push_back(
              own[static_cast<std::size_t>(settings.sinks->shape[0] == 1 ? r : h * sinkCount + r)]);
    }
  }

  // An operand of a product, as its multipliers see it.
  Number operand(Number value) const {
    if constexpr (std::is_same_v<Number, float>)
      return settings.tf32 ? truncateToTf32(value) : value;
    else
      return value;
  }
  std::vector<Number> operands(const HostArray &array) const {
    auto values = numbers.load(array);
    for (Number &value : values)
      value = operand(value);
    return values;
  }
  std::int64_t kvHead(std::int64_t head) const { // of [B, Hq] heads
    return head / heads * kvHeads + head % heads / (heads / kvHeads);
  }

  // Queries and keys, and those of far pairs.
  struct Operands {
    std::vector<Number> q, k, kt; // kt: k transposed within each head
  };
  std::vector<Operands> operandSets;
  std::size_t setOf(std::int64_t i, std::int64_t j) const {
    return settings.farKeys && std::abs(distance(i, j)) >= settings.far ? 1 : 0;
  }

  // Of query i of a head of all B * Hq: [Sk], -inf where a key is hidden. slope, if wanted: what a
  // change of the scaled product changes the score by.
  void row(std::int64_t head, std::int64_t i, std::vector<Number> &scores,
           std::vector<Number> *slope = nullptr) const {
    scores.assign(static_cast<std::size_t>(keys), 0);
    if (slope)
      slope->assign(static_cast<std::size_t>(keys), 1);
    // k is transposed, so that this goes along memory.
    for (std::size_t set = 0; set < operandSets.size(); ++set) {
      const Number *query = operandSets[set].q.data() + (head * queries + i) * width;
      for (std::int64_t d = 0; d < width; ++d) {
        const Number *line = operandSets[set].kt.data() + (kvHead(head) * width + d) * keys;
        for (std::int64_t j = 0; j < keys; ++j)
          if (operandSets.size() == 1 || setOf(i, j) == set)
            scores[static_cast<std::size_t>(j)] += query[d] * line[j];
      }
    }
    for (std::int64_t j = 0; j < keys; ++j) {
      Number &score = scores[static_cast<std::size_t>(j)];
      score = numbers.store(numbers.store(score) * scale);
      if (settings.near) {
        const auto &[base, peak, decay] = *settings.near;
        const Number factor = numbers.store(
            static_cast<Number>(base) +
            static_cast<Number>(peak) * std::exp(static_cast<Number>(-decay) *
                                                 static_cast<Number>(std::abs(distance(i, j)))));
        score = numbers.store(score * factor);
        if (slope)
          (*slope)[static_cast<std::size_t>(j)] = factor;
      }
      if (settings.modified) {
        const auto [value, change] =
            settings.modified(static_cast<double>(score), batch + head / heads, head % heads, i, j);
        score = numbers.store(static_cast<Number>(value));
        if (slope)
          (*slope)[static_cast<std::size_t>(j)] = numbers.store(static_cast<Number>(change));
      }
      if (settings.cap > 0) {
        const auto cap = static_cast<Number>(settings.cap);
        const Number t = numbers.store(std::tanh(score / cap));
        score = numbers.store(cap * t);
        if (slope)
          (*slope)[static_cast<std::size_t>(j)] *= numbers.store(1 - t * t);
      }
      if (settings.bias)
        score = numbers.store(score + bias[place(*settings.bias, head, i, j)]);
      if (!sees(head, i, j))
        score = -infinity;
    }
  }
  bool sees(std::int64_t head, std::int64_t i, std::int64_t j) const {
    const std::int64_t before = distance(i, j);
    return !((settings.causal && before < 0) || (settings.left >= 0 && before > settings.left) ||
             (settings.right >= 0 && -before > settings.right) ||
             (settings.mask && !settings.mask->as<bool>()[place(*settings.mask, head, i, j)]) ||
             (settings.blockMask &&
              !settings.blockMask->as<bool>()[place(
                  *settings.blockMask, head, i / settings.blockQueries, j / settings.blockKeys)]));
  }

  // How far key j lies before query i.
  std::int64_t distance(std::int64_t i, std::int64_t j) const { return i + keys - queries - j; }

  // What dropout multiplies a weight by.
  Number kept(std::int64_t head, std::int64_t i, std::int64_t j) const {
    if (settings.dropout == 0)
      return 1;
    const auto words = philoxWords(settings.seed,
                                   {static_cast<std::uint32_t>(j / 32 * 8 + j % 8),
                                    static_cast<std::uint32_t>(i / 16 * 8 + i % 8),
                                    static_cast<std::uint32_t>(head % heads),
                                    static_cast<std::uint32_t>(batch + head / heads)},
                                   7);
    const std::uint32_t word = words[static_cast<std::size_t>(j / 8 % 4)],
                        threshold = weightThreshold(settings.dropout);
    return (i / 8 % 2 ? word : word << 16) >= threshold
               ? static_cast<Number>(1 / (1 - threshold * 0x1p-32))
               : 0;
  }

  // Of [1|B, 1|Hq, Sq, Sk], or of rows and columns that are blocks of those.
  std::size_t place(const HostArray &array, std::int64_t head, std::int64_t i,
                    std::int64_t j) const {
    const std::int64_t b = array.shape[0] == 1 ? 0 : head / heads,
                       h = array.shape[1] == 1 ? 0 : head % heads;
    return static_cast<std::size_t>(
        ((b * array.shape[1] + h) * array.shape[2] + i) * array.shape[3] + j);
  }

private:
  void addOperands(const HostArray &q, const HostArray &k) {
    Operands &set = operandSets.emplace_back(operands(q), operands(k));
    set.kt.resize(set.k.size());
    parallelFor(batches * kvHeads, [&](std::int64_t head) {
      const Number *from = set.k.data() + head * keys * width;
      Number *to = set.kt.data() + head * keys * width;
      for (std::int64_t j = 0; j < keys; ++j)
        for (std::int64_t d = 0; d < width; ++d)
          to[d * keys + j] = from[j * width + d];
    });
  }

  const Numbers &numbers;
  const AttentionSettings &settings;
  const std::int64_t batch; // number of the first
  std::vector<Number> bias;
};

} // namespace sectile
