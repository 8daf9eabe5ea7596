// Merging partial attention, for all who split the keys among programs or devices.
#pragma once
#include <algorithm>
#include <bit>
#include <limits>
#include <sectile/sectile.h>

namespace sectile {

struct MergeConfig {
  int m = 16, warps = 4;
  int width = 64; // D, up to the next multiple of 16
};
SECTILE_CONFIG(MergeConfig, m, warps, width)

// Rows of attention over parts of the keys, taken in one by one: lse = log(sum of e^lse_p),
// o = sum of e^(lse_p - lse) o_p.
struct MergedRows {
  Tile<float> largest; // [rows]: of the parts' lse so far
  Tile<float> total;   // [rows]: sum of e^(lse_p - largest)
  Tile<float> output;  // [rows, width]: the parts' sum, weighted alike

  MergedRows(int rows, int width)
      : largest(full<float>(-infinity, rows)), total(zeros<float>(rows)),
        output(zeros<float>(rows, width)) {}

  // A part that has seen nothing, with an lse of -inf, may hold anything.
  void add(const Tile<float> &lse, const Tile<float> &o) {
    auto before = largest;
    largest = maximum(largest, lse);
    auto base = where(largest == -infinity, 0.0f, largest);
    auto keep = exp(before - base), weight = exp(lse - base);
    total = total * keep + weight;
    output =
        output * expand(keep, 1) + where(expand(lse == -infinity, 1), 0.0f, o * expand(weight, 1));
  }

  // 0 for rows of which no part has seen anything.
  Tile<float> result() const { return output / expand(where(total == 0.0f, 1.0f, total), 1); }
  Tile<float> logarithm() const { return where(total == 0.0f, -infinity, largest + log(total)); }

private:
  static constexpr float infinity = std::numeric_limits<float>::infinity();
};

// States of part p in partial[p]; a program merges m rows. The parts are added in their order, so
// that the same states give the same bits.
template <class In, class Out>
Kernel mergeStates{
    "attention_merge", [](View<const In, 5> partial, View<const float, 4> logs, View<Out, 4> o,
                          View<float, 3> lse, const MergeConfig &config) {
      const int m = config.m, width = config.width;
      auto rows = program_id(0), head = program_id(1), batch = program_id(2);
      MergedRows merged(m, width);
      for (auto part : range(0, partial.extent(0)))
        merged.add(logs.at(part, batch, head).tile(m).load(rows),
                   cast<float>(partial.at(part, batch, head).tile(m, width).load(rows, 0)));
      o.at(batch, head).tile(m, width).store(rows, 0, merged.result());
      lse.at(batch, head).tile(m).store(rows, merged.logarithm());
    }};

struct MergeRowConfig {
  int parts = 32, warps = 4; // parts: loaded together
  int width = 64;            // D, up to the next multiple of 16
};
SECTILE_CONFIG(MergeRowConfig, parts, warps, width)

// Of so many parts.
inline MergeRowConfig mergeRowConfig(std::int64_t parts, int width) {
  const int together = static_cast<int>(std::bit_ceil(std::clamp<std::uint64_t>(parts, 2, 32)));
  return {.parts = together, .warps = together > 8 ? 4 : 1, .width = width};
}

// The same of one row a program, where there are many parts: they are loaded together, and summed
// in an order that their number fixes.
template <class In, class Out>
Kernel mergeRow{
    "attention_merge_row", [](View<const In, 5> partial, View<const float, 4> logs, View<Out, 4> o,
                              View<float, 3> lse, const MergeRowConfig &config) {
      constexpr float infinity = std::numeric_limits<float>::infinity();
      const int parts = config.parts, width = config.width;
      auto row = program_id(0), head = program_id(1), batch = program_id(2);
      const auto rows = partial.fix(3, row).fix(2, head).fix(1, batch);
      const auto rowLogs = logs.fix(3, row).fix(2, head).fix(1, batch);
      auto largest = full<float>(-infinity, 1), total = zeros<float>(1);
      auto sums = zeros<float>(1, width);
      for (auto step : range(0, cdiv(partial.extent(0), parts))) {
        auto known = rowLogs.tile(parts).padding(-infinity).load(step);
        auto values = cast<float>(rows.tile(parts, width).load(step, 0));
        auto before = largest;
        largest = maximum(largest, max(known, 0));
        auto base = where(largest == -infinity, 0.0f, largest);
        auto keep = exp(before - base);
        auto weights = exp(known - base);
        total = total * keep + sum(weights, 0);
        sums =
            sums * expand(keep, 1) +
            expand(sum(where(expand(known == -infinity, 1), 0.0f, values * expand(weights, 1)), 0),
                   0);
      }
      auto some = where(total == 0.0f, 1.0f, total);
      o.at(batch, head).tile(1, width).store(row, 0, sums / expand(some, 1));
      lse.at(batch, head).tile(1).store(row, where(total == 0.0f, -infinity, largest + log(total)));
    }};

} // namespace sectile
