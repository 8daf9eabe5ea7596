// Softmax over rows whose scores come block by block, with the weighted sum of values that goes
// with it: what every attention kernel that never holds a whole row of scores keeps.
#pragma once
#include <limits>
#include <optional>
#include <sectile/sectile.h>

namespace sectile::blockwise {

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float log2e = 1.44269504f;
inline constexpr float ln2 = 0.693147181f;

// Scores times `unit`, which is positive, are in units of log 2 (natural ones times log2e); those
// of hidden keys are -inf. Where scores are products without their scale, the multiplication by the
// unit and the subtraction of the largest one are one operation for each score. The largest one is
// rounded where it is found, so that all steps subtract the same number.
struct OnlineSoftmax {
  std::optional<Float> unit; // 1 where there is none
  Tile<float> largest;       // [rows]: of `lowest` and the scores so far, in units of log 2
  Tile<float> total;         // [rows]: sum of 2^(score - largest)
  Tile<float> output;        // [rows, width]: the values' sum, weighted alike
  // Where values have scales of their own: what the output is in units of, and the largest scale.
  struct ValueScales {
    Float unit = smallest, largest = smallest;
  };
  std::optional<ValueScales> valueScales = {};

  OnlineSoftmax(int rows, int width, std::optional<Float> unit = {})
      : unit(std::move(unit)), largest(full<float>(lowest, rows)), total(zeros<float>(rows)),
        output(zeros<float>(rows, width)) {}

  // Scores that rows have beside those of their keys, without values: [N] for all rows, or [rows,
  // N]. To be called once, before any others.
  void absorb(const Tile<float> &scores) {
    auto own = scores.rank() == 1 ? expand(scores, 0) : scores;
    largest = maximum(largest, inLog2(max(own, 1)));
    total = zeros_like(total) + sum(exponentials(own), 1);
  }

  // Takes in scores [rows, N] and gives their weights, of which `add` then wants the values.
  Tile<float> weigh(const Tile<float> &scores, const std::optional<Float> &rescaled = {}) {
    auto before = largest;
    largest = maximum(largest, inLog2(max(scores, 1)));
    auto weights = exponentials(scores);
    auto shrink = exp2(before - largest);
    total = total * shrink + sum(weights, 1);
    output = output * expand(rescaled ? shrink * *rescaled : shrink, 1);
    return weights;
  }
  // To be called before `weigh` with the scales of a step's values, [N] or one for all: what the
  // output changes by, for `weigh`, and what weights have to be multiplied by, at most 1. The unit
  // is the largest scale of each step, because 16 bits may hold neither a scaled value nor a scaled
  // weight. It falls no further below the largest of all than f32 can hold outputs.
  struct Rescaling {
    Float ofOutput;
    Tile<float> ofWeights;
  };
  Rescaling rescale(const Tile<float> &scales) {
    const Float most = scales.rank() ? max(abs(scales), 0) : abs(scales),
                before = valueScales->unit;
    valueScales->largest = maximum(valueScales->largest, most);
    valueScales->unit =
        maximum(maximum(most, valueScales->largest * 0x1p-64f), smallest); // none may be 0
    return {before / valueScales->unit, scales / valueScales->unit};
  }
  template <class T> void add(const Tile<T> &weights, const Tile<T> &values, Precision precision) {
    output = dot(weights, values, output, precision);
  }

  // 0 for rows that saw nothing.
  Tile<float> result() const {
    auto normalizer = 1.0f / where(total == 0.0f, 1.0f, total);
    return output * expand(valueScales ? normalizer * valueScales->unit : normalizer, 1);
  }
  // Natural logarithm of the sum of exponentials; -inf for rows that saw nothing.
  Tile<float> logarithm() const {
    return where(total == 0.0f, -infinity, (largest + log2(total)) * ln2);
  }

private:
  static constexpr float smallest = 0x1p-96f; // of a unit
  // Of scores that count. A row that has seen no key yet has nothing to be relative to, and one
  // whose largest score is so low that its rounding would change weights has seen none.
  static constexpr float lowest = -0x1p24f;
  Tile<float> exponentials(const Tile<float> &scores) const {
    auto from = expand(largest, 1);
    return exp2(unit ? fma(scores, *unit, -from) : scores - from);
  }
  Tile<float> inLog2(const Tile<float> &score) const { return unit ? score * *unit : score; }
};

} // namespace sectile::blockwise
