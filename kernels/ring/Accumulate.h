// Putting partial attention results together, a slice of the keys at a time.
#pragma once
#include <sectile/sectile.h>

namespace sectile {

struct AccumulateConfig {
  int rows = 16, width = 64, warps = 4;
};
SECTILE_CONFIG(AccumulateConfig, rows, width, warps)

// Rows of a running (o, lse) in float become those over its keys and the keys of `part`:
// lse = log(e^lse + e^lse'), o = (e^lse o + e^lse' o') / e^lse. A side that saw no key counts
// nothing.
template <class T>
inline Kernel mergeState{
    "ring_merge", [](View<float, 2> o, View<float, 1> lse, View<const T, 2> part,
                     View<const float, 1> partLse, const AccumulateConfig &config) {
      auto block = program_id(0);
      auto to = o.tile(config.rows, config.width);
      auto logs = lse.tile(config.rows);
      auto before = logs.load(block), other = partLse.tile(config.rows).load(block);
      constexpr float infinity = std::numeric_limits<float>::infinity();
      auto base = maximum(before, other);
      auto finite = where(base == -infinity, 0.0f, base);
      auto keep = exp(before - finite), take = exp(other - finite);
      auto total = keep + take;
      auto divisor = where(total == 0.0f, 1.0f, total);
      logs.store(block, where(total == 0.0f, -infinity, finite + log(divisor)));
      to.store(block, 0,
               to.load(block, 0) * expand(keep / divisor, 1) +
                   cast<float>(part.tile(config.rows, config.width).load(block, 0)) *
                       expand(take / divisor, 1));
    }};

// target += source
template <class T>
inline Kernel addTo{
    "ring_add", [](View<float, 2> target, View<const T, 2> source, const AccumulateConfig &config) {
      auto block = program_id(0);
      auto to = target.tile(config.rows, config.width);
      to.store(block, 0,
               to.load(block, 0) +
                   cast<float>(source.tile(config.rows, config.width).load(block, 0)));
    }};

// target = source, rounded
template <class T>
inline Kernel roundTo{"ring_round", [](View<T, 2> target, View<const float, 2> source,
                                       const AccumulateConfig &config) {
                        auto block = program_id(0);
                        target.tile(config.rows, config.width)
                            .store(block, 0, source.tile(config.rows, config.width).load(block, 0));
                      }};

} // namespace sectile
