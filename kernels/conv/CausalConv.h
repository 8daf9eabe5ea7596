// What the kernels of causal convolutions along time share: where packed sequences lie, the inputs
// around a tile's tokens with what comes before a sequence, and the checks of a call.
#pragma once
#include "kernels/blocks/RoundedActivations.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include <vector>

namespace sectile::causal {

struct ConvConfig {
  int t = 64, d = 256, warps = 4;
  int run = 16;  // steps of t that follow each other in a thread
  int width = 4; // taps
  bool silu = true;
  bool packed = false, b = false, state = false, indexed = false; // given
  bool given = false; // backward: the gradient of the final state
  bool whole = false; // of causal_conv1d_update: a program holds a sequence
};

// Of each token of a tile, [tokens]: its sequence, and where that begins and ends.
struct Sequences {
  Int number, first, end;
};

inline Int boundary(const View<const std::int32_t, 1> &bounds, const Int &at) {
  return cast<Index>(
      load(bounds.ptr() + cast<std::int64_t>(at) * bounds.stride(0), at < bounds.extent(0), 0));
}

inline Sequences sequencesOf(const View<const std::int32_t, 1> &bounds, const Int &token,
                             const Int &batch, const Int &length, bool packed) {
  const int tokens = static_cast<int>(token.extent(0));
  const auto all = [&](const Int &number) { return broadcast_to(expand(number, 0), tokens); };
  if (!packed)
    return {all(batch), all(0), all(length)};
  // The last sequence that begins at the token or before it, by halves.
  Int low = all(0), high = all(maximum(bounds.extent(0) - 1, 1));
  loop_while([&] { return max(high - low, 0) > 1; },
             [&] {
               const Int middle = (low + high) / 2;
               const Bool isAfter = boundary(bounds, middle) > token, isOpen = high - low > 1;
               high = where(isOpen && isAfter, middle, high);
               low = where(isOpen && !isAfter, middle, low);
             });
  return {low, boundary(bounds, low), boundary(bounds, low + 1)};
}

// The taps of some channels, [1, channels] each, the one of the token itself last.
template <class T>
std::vector<Tile<float>> tapsOf(const View<const T, 2> &w, const Int &column,
                                const ConvConfig &config) {
  // Of a channel they are neighbours in memory, so one thread reads them together.
  const int padded = config.width == 2 ? 2 : 4;
  const auto row = [](const Tile<T> &taps) { return expand(cast<float>(taps), 0); };
  const auto all = w.tile(config.d, padded).load(column, 0);
  if (padded == 2) {
    const auto [first, second] = split(all);
    return {row(first), row(second)};
  }
  const auto [even, odd] = split(reshape(all, config.d, 2, 2));
  const auto [first, third] = split(even);
  const auto [second, fourth] = split(odd);
  std::vector taps{row(first), row(second), row(third)};
  if (config.width == 4)
    taps.push_back(row(fourth));
  return taps;
}

// Steps phase, phase + run, phase + 2 run, ….
template <class T> View<T, 2> everyRun(const View<T, 2> &steps, int phase, int run) {
  return {steps.ptr() + phase * steps.stride(0),
          {(steps.extent(0) + (run - 1 - phase)) / run, steps.extent(1)},
          {run * steps.stride(0), steps.stride(1)}};
}

// A program's steps from part * t on, as rows of `run` steps that follow each other: of each row
// one step, [rows, channels]. A thread that has whole rows of a channel loads an input once for all
// taps.
struct Runs {
  Int part, column;
  ConvConfig config;

  int rows() const { return config.t / config.run; }
  // Step number `step` of each row, before or behind it too.
  template <class T> Tile<T> load(const View<const T, 2> &from, int step) const {
    const int phase = (step % config.run + config.run) % config.run,
              row = (step - phase) / config.run;
    return everyRun(from, phase, config.run)
        .tile(rows(), config.d)
        .load_at(part * rows() + row, column * config.d);
  }
  // All steps of the rows, in one access: of several the program would have to wait for each.
  template <class T> void store(const View<T, 2> &to, const std::vector<Tile<T>> &steps) const {
    const auto all = permute(reshape(inTurn<T>(steps), rows(), config.d, config.run), {0, 2, 1});
    to.tile(config.t, config.d).store(part, column, reshape(all, config.t, config.d));
  }

private:
  // Along new last axes of extent 2.
  template <class T> static Tile<T> inTurn(const std::vector<Tile<T>> &steps) {
    if (steps.size() == 1)
      return steps[0];
    std::vector<Tile<T>> even, odd;
    for (std::size_t i = 0; i < steps.size(); i += 2) {
      even.push_back(steps[i]);
      odd.push_back(steps[i + 1]);
    }
    return join(inTurn<T>(even), inTurn<T>(odd));
  }
};

// Numbers `place` of the states of these rows, [tokens, channels]: 0 where there is none.
template <class T>
Tile<T> statesAt(const View<const T, 3> &state, const Int &row, const Int &place, const Int &column,
                 const ConvConfig &config) {
  const Bool isThere = row >= 0 && place >= 0 && place < config.width - 1;
  auto values = zeros<T>(static_cast<int>(place.extent(0)), config.d);
  // Seldom: only at one end of a sequence.
  when(max(cast<std::int32_t>(isThere), 0) > 0, [&] {
    const Int channel = column * config.d + arange(0, config.d);
    const auto rows =
        cast<std::int64_t>(row) * state.stride(0) + cast<std::int64_t>(place) * state.stride(2);
    values = load(state.ptr() +
                      (expand(rows, 1) + expand(cast<std::int64_t>(channel) * state.stride(1), 0)),
                  expand(isThere, 1) && expand(channel < state.extent(1), 0));
  });
  return values;
}

// The inputs of a batch around a tile's tokens.
template <class T> struct Window {
  View<const T, 2> x;     // [T, D]
  View<const T, 3> state; // [rows, D, width - 1]: the inputs before a sequence's first
  Int base;               // the first of the tile's tokens, which follow each other
  Int token;              // [tokens]
  Int first, end;         // of each token's sequence
  Int row;                // of its state; negative: none
  Int column;             // of blocks of channels
  ConvConfig config;

  int tokens() const { return static_cast<int>(token.extent(0)); }
  // Whether token + shift is in the token's sequence.
  Bool isInside(int shift) const { return token + shift >= first && token + shift < end; }
  // Those `shift` tokens later, [tokens, channels]: 0 where there are none.
  Tile<T> at(int shift) const {
    const int d = config.d, before = config.width - 1;
    const Int place = token + shift - first;
    auto values = x.tile(tokens(), d).load_at(base + shift, column * d);
    values = where(expand(isInside(shift), 1), values, zeros_like(values));
    if (!config.state || shift >= before)
      return values;
    return where(expand(place < 0, 1), statesAt(state, row, place + before, column, config),
                 values);
  }
};

// [1, channels], zeros where there is no bias.
template <class T>
Tile<float> biasOf(const View<const T, 1> &b, const Int &column, const ConvConfig &config) {
  if (!config.b)
    return zeros<float>(1, config.d);
  return expand(cast<float>(b.tile(config.d).load(column)), 0);
}

// Of some channels.
struct Weights {
  std::vector<Tile<float>> taps;
  Tile<float> bias;
};

template <class T>
Weights weightsOf(const View<const T, 2> &w, const View<const T, 1> &b, const Int &column,
                  const ConvConfig &config) {
  return {tapsOf(w, column, config), biasOf(b, column, config)};
}

// The sum before the activation of a step whose first tap is on values[first].
template <class T>
Tile<float> sumOf(const std::vector<Tile<T>> &values, int first, const Weights &weights) {
  auto total = weights.bias;
  for (std::size_t tap = 0; tap < weights.taps.size(); ++tap)
    total = total + cast<float>(values[static_cast<std::size_t>(first) + tap]) * weights.taps[tap];
  return total;
}

// The logistic function, as exactly as T needs it. A division would branch; of f32 the chip's
// reciprocal is right where it is a normal number, which 2^-16 keeps it.
template <class T> Tile<float> logisticOf(const Tile<float> &x) {
  constexpr float c = 0x1p-16f;
  return sizeof(T) == 2 ? activation::fastLogistic(x) : fast_divide(c, fma(exp(-x), c, c));
}

// x, w and b; the option, the configuration, and what is checked and
// follows from other extents.
void addInputs(KernelSpec &spec);
void configure(KernelSpec &spec);
// For searches: tiles of which a thread has `most` channels of a step at most.
decltype(SearchSpace::where) runsWithin(std::int64_t most, std::vector<TriedAlong> along);
// `states` is the argument with what comes before the sequences.
ConvConfig configOf(const Use &use, const char *states);

ReferenceFunction causalConvReference;
ReferenceFunction causalConvUpdateReference;
ReferenceFunction causalConvBackwardReference;

} // namespace sectile::causal
