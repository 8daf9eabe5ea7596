// Angles of positions, as device functions. An angle is kept in turns, as a fraction of 2^32: its
// whole turns are dropped by integers that wrap around, so that it is as good at position 2^31 as
// at position 1.
#pragma once
#include <numbers>
#include <optional>
#include <sectile/sectile.h>

namespace sectile {

// log2 of the ratio of two neighbouring frequencies: theta^(-2 / dims).
inline double frequencyStep(double theta, std::int64_t dims) {
  return dims ? -2 * std::log2(theta) / static_cast<double>(dims) : 0;
}

// How frequencies f of a pair i are scaled for contexts longer than those of the training:
//   f (1 + ramp rampShrink), ramp = rampBase + i rampPair + f rampFrequency, clamped to 0 and 1.
// Every scheme of FrequencyScaling is one of these.
struct FrequencyRamp {
  Scalar<double> rampBase, rampPair, rampFrequency, rampShrink;

  Tile<double> scaled(const Int &pairs, const Tile<double> &frequency) const {
    const auto ramp = rampBase + cast<double>(pairs) * rampPair + frequency * rampFrequency;
    return frequency * (minimum(maximum(ramp, 0.0), 1.0) * rampShrink + 1.0);
  }
};

// Turns per position of each pair, as a fraction of 2^64: theta^(-2 pair / dims) / 2 pi, scaled.
// Pairs from `count` on do not rotate.
inline Tile<std::uint64_t> frequencies(const Int &pairs, const Int &count,
                                       const Scalar<double> &step,
                                       const std::optional<FrequencyRamp> &ramp = {}) {
  constexpr double radians = 0x1p63 / std::numbers::pi;
  auto frequency = exp2(cast<double>(pairs) * step);
  if (ramp)
    frequency = ramp->scaled(pairs, frequency);
  return where(pairs < count, cast<std::uint64_t>(frequency * radians), std::uint64_t(0));
}

// position * frequency in turns, of any integers; exact but for the frequency's own rounding, which
// is 2^-51 of it at most.
template <class Position>
Tile<std::uint32_t> phase(const Position &position, const Tile<std::uint64_t> &frequency) {
  return cast<std::uint32_t>((cast<std::uint64_t>(cast<std::int64_t>(position)) * frequency) >> 32);
}

struct SinCos {
  Tile<float> sin, cos;
};

// Both within 2e-7.
inline SinCos sinCosOf(const Tile<std::uint32_t> &turns) {
  // The nearest quarter turn, and what is left: at most an eighth of a turn.
  const auto quarter = (turns + 0x20000000u) >> 30;
  const auto rest = cast<std::int32_t>(turns - (quarter << 30));
  const auto x = cast<float>(rest) * static_cast<float>(std::numbers::pi * 0x1p-31);
  const auto square = x * x;
  // Taylor's series: what they leave out is below 2e-9.
  auto series = [&](std::initializer_list<double> coefficients) {
    auto sum = full_like(x, 0.0f);
    for (double coefficient : coefficients)
      sum = sum * square + static_cast<float>(coefficient);
    return sum;
  };
  const auto sine = x + x * square * series({1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6});
  const auto cosine =
      1.0f + square * series({-1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -1.0 / 2});
  const auto odd = (quarter & 1u) != 0u;
  const auto s = where(odd, cosine, sine), c = where(odd, sine, cosine);
  return {where((quarter & 2u) != 0u, -s, s), where(((quarter + 1u) & 2u) != 0u, -c, c)};
}

} // namespace sectile
