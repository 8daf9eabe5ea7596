// What the kernels of causal convolutions along time share: where packed sequences lie, the inputs
// around a tile's tokens with what comes before a sequence, and the checks of a call.
#pragma once
#include "kernels/calls/Use.h"
#include <vector>

namespace sectile::causal {

struct ConvConfig {
  int t = 32, d = 128, warps = 4;
  int width = 4; // taps
  bool silu = true;
  bool packed = false, b = false, state = false, indexed = false; // given
  bool given = false; // backward: the gradient of the final state
  bool whole = false; // of causal_conv1d_update: a program holds a sequence
};
SECTILE_CONFIG(ConvConfig, t, d, warps, width, silu, packed, b, state, indexed, given, whole)

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
  // The sums before the activation at these tokens, `shift` later; `values` are at(-C) to at(C) or
  // fewer, `centre` says which of them is at(0).
  Tile<float> sums(const std::vector<Tile<T>> &values, int centre, int shift,
                   const std::vector<Tile<float>> &taps, const Tile<float> &bias) const {
    auto total = bias;
    for (int tap = 0; tap < config.width; ++tap)
      total =
          total +
          cast<float>(values[static_cast<std::size_t>(centre + shift + tap + 1 - config.width)]) *
              taps[static_cast<std::size_t>(tap)];
    return total;
  }
};

// [1, channels], zeros where there is no bias.
template <class T>
Tile<float> biasOf(const View<const T, 1> &b, const Int &column, const ConvConfig &config) {
  if (!config.b)
    return zeros<float>(1, config.d);
  return expand(cast<float>(b.tile(config.d).load(column)), 0);
}

// x, w and b; where packed sequences lie; the option, the configuration, and what is checked and
// follows from other extents.
void addInputs(KernelSpec &spec);
ArgumentRow boundaries();
void configure(KernelSpec &spec);
// `states` is the argument with what comes before the sequences.
ConvConfig configOf(const Use &use, const char *states);

// As KernelSpec::reference.
std::vector<HostArray> causalConvReference(const Invocation &, std::span<const HostArray> inputs,
                                           Arithmetic);
std::vector<HostArray> causalConvUpdateReference(const Invocation &,
                                                 std::span<const HostArray> inputs, Arithmetic);
std::vector<HostArray> causalConvBackwardReference(const Invocation &,
                                                   std::span<const HostArray> inputs, Arithmetic);

} // namespace sectile::causal
