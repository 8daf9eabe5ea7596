// The options of the attention kernels as what their loops take: a function of scores, and what a
// query sees.
#pragma once
#include "kernels/attention/Options.h"
#include "kernels/attention/Scores.h"

namespace sectile::blockwise {

// What the options take in numbers, as a kernel's parameters have it.
struct OptionNumbers {
  Float cap;
  Int left, right, minDistance;
  Float nearBase, nearPeak, nearDecay;
};

// All of them: bias and mask are [B, Hq, Sq, Sk], or of packed sequences [Hq, Tq, Mk].
template <class T, int N = 4> struct OptionArguments {
  View<const T, N> bias;
  View<const bool, N> mask;
  OptionNumbers limits;
};

class OptionScores final : public flash::AnyVisibility {
public:
  template <class T, int N>
  OptionScores(const AttentionConfig &config, const OptionArguments<T, N> &of)
      : OptionScores(config, of.limits, of.bias, of.mask) {}
  // Of bias and mask [B, Hq, Sq, Sk].
  template <class T>
  OptionScores(const AttentionConfig &config, const OptionNumbers &numbers,
               const View<const T, 4> &bias, const View<const bool, 4> &mask)
      : OptionScores(config, numbers, bias, mask, [](const auto &view, const flash::At &at) {
          return ofHeads(view.at(at.batch()), at);
        }) {}
  // Of packed sequences [Hq, Tq, Mk]: key j of its sequence is column j.
  template <class T>
  OptionScores(const AttentionConfig &config, const OptionNumbers &numbers,
               const View<const T, 3> &bias, const View<const bool, 3> &mask)
      : OptionScores(config, numbers, bias, mask, [](const auto &view, const flash::At &at) {
          return ofHeads(view.slice(1, at.sequence.firstQuery, at.sequence.queries), at);
        }) {
    columns = {bias.extent(2), mask.extent(2)};
  }

  // Must not outlive this.
  flash::ScoreRules rules(const flash::Numbers &launched) const {
    return {launched, modifier(), *this};
  }
  flash::Modifier modifier() const {
    if (!config.near && !config.cap && !config.bias)
      return {};
    return {[this](const flash::Score &score, const flash::At &at) { return modified(score, at); },
            config.bias};
  }

  flash::Interval keysOf(const flash::Sequence &sequence, const Int &query) const override {
    return window(query, sequence.offset(), numbers.left, numbers.right, config.left, config.right);
  }
  flash::Interval queriesOf(const flash::Sequence &sequence, const Int &key) const override {
    return window(key, -sequence.offset(), numbers.right, numbers.left, config.right, config.left);
  }
  std::optional<Bool> sees(const flash::At &at) const override {
    std::optional<Bool> seen;
    if (config.mask)
      seen = mask(at);
    if (config.minDistance) {
      const Bool distant = abs(distance(at)) >= numbers.minDistance;
      seen = seen ? *seen && distant : distant;
    }
    return seen;
  }

  // Without a column for a key they would not reach it, and nobody would notice.
  void require(const flash::Sequence &sequence) const override {
    if (config.bias)
      device_assert(sequence.keys <= columns.bias, "bias has a column for each key");
    if (config.mask)
      device_assert(sequence.keys <= columns.mask, "mask has a column for each key");
  }

private:
  // blockOf(bias, at) and blockOf(mask, at) are those of a block.
  template <class T, int N, class BlockOf>
  OptionScores(const AttentionConfig &config, const OptionNumbers &numbers,
               const View<const T, N> &bias, const View<const bool, N> &mask, BlockOf blockOf)
      : config(config), numbers(numbers),
        bias([=](const flash::At &at) { return cast<float>(blockOf(bias, at)); }),
        mask([=](const flash::At &at) { return blockOf(mask, at); }) {}

  template <class T> static Tile<T> ofHeads(const View<const T, 3> &view, const flash::At &at) {
    return at.heads == 1 ? at.per_pair(view.at(at.head())) : at.per_pair(view);
  }
  flash::Score modified(const flash::Score &score, const flash::At &at) const {
    flash::Score result = score;
    if (config.near) {
      const auto near = exp2(cast<float>(abs(distance(at))) * (numbers.nearDecay * -log2e));
      result *= near * numbers.nearPeak + numbers.nearBase;
    }
    if (config.cap)
      result = soft_cap(result, numbers.cap);
    return config.bias ? result + bias(at) : result;
  }
  static Int distance(const flash::At &at) { return at.query() + at.sequence.offset() - at.key(); }
  static flash::Interval window(const Int &number, const Int &offset, const Int &before,
                                const Int &behind, bool first, bool last) {
    flash::Interval result;
    if (first)
      result.first = number + (offset - before);
    if (last)
      result.last = number + (offset + behind);
    return result;
  }

  const AttentionConfig &config;
  OptionNumbers numbers;
  std::function<Tile<float>(const flash::At &)> bias;
  std::function<Bool(const flash::At &)> mask;
  struct Columns {
    Int bias = 0, mask = 0;
  } columns = {}; // of packed sequences
};

} // namespace sectile::blockwise

namespace sectile {
inline Arguments<blockwise::OptionNumbers> optionNumbers(const AttentionNumbers &numbers) {
  const Nearness near = numbers.near.value_or(Nearness());
  return {numbers.cap,
          numbers.left,
          numbers.right,
          numbers.minDistance,
          static_cast<float>(near.base),
          static_cast<float>(near.peak),
          static_cast<float>(near.decay)};
}
template <class T, int N = 4>
Arguments<blockwise::OptionArguments<T, N>> optionArguments(const Use &use,
                                                            const AttentionNumbers &numbers) {
  return {broadcast<T, N>(use, "bias"), broadcast<bool, N>(use, "mask"), optionNumbers(numbers)};
}
} // namespace sectile
