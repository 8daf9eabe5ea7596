// The kernel that merges partial attention, for all who split the keys among programs.
#pragma once
#include <limits>
#include <sectile/sectile.h>

namespace sectile {

struct MergeConfig {
  int m = 16, warps = 4;
  int width = 64; // D, up to the next multiple of 16
};
SECTILE_CONFIG(MergeConfig, m, warps, width)

// States of part p in partial[p]; a program merges m rows. The parts are added in their order, so
// that the same states give the same bits.
template <class In, class Out>
Kernel mergeStates{
    "attention_merge", [](View<const In, 5> partial, View<const float, 4> logs, View<Out, 4> o,
                          View<float, 3> lse, const MergeConfig &config) {
      constexpr float infinity = std::numeric_limits<float>::infinity();
      const int m = config.m, width = config.width;
      auto rows = program_id(0), head = program_id(1), batch = program_id(2);
      auto parts = partial.extent(0);
      auto logsOf = [&](const Int &part) {
        return logs.at(part, batch, head).tile(m).padding(-infinity).load(rows);
      };

      auto largest = full<float>(-infinity, m);
      for (auto part : range(0, parts))
        largest = maximum(largest, logsOf(part));
      auto total = zeros<float>(m);
      auto output = zeros<float>(m, width);
      for (auto part : range(0, parts)) {
        auto log = logsOf(part);
        // One that has seen nothing may hold anything.
        auto weight = where(log == -infinity, 0.0f, exp(log - largest));
        auto state = cast<float>(partial.at(part, batch, head).tile(m, width).load(rows, 0));
        total += weight;
        output += where(expand(log == -infinity, 1), 0.0f, state * expand(weight, 1));
      }
      auto divisor = where(total == 0.0f, 1.0f, total);
      o.at(batch, head).tile(m, width).store(rows, 0, output / expand(divisor, 1));
      lse.at(batch, head)
          .tile(m)
          .store(rows, where(total == 0.0f, -infinity, largest + log(total)));
    }};

} // namespace sectile
