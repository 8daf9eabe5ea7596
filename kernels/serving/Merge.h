// Merging partial attention, for all who split the keys among programs or devices.
#pragma once
#include <algorithm>
#include <bit>
#include <limits>
#include <sectile/sectile.h>

namespace sectile {

// Rows of attention over parts of the keys, taken in one by one: lse = log(sum of e^lse_p),
// o = sum of e^(lse_p - lse) o_p.
struct MergedRows {
  Tile<float> largest; // [rows]: of the parts' lse so far
  Tile<float> total;   // [rows]: sum of e^(lse_p - largest)
  Tile<float> output;  // [rows, width]: the parts' sum, weighted alike

  MergedRows(int rows, int width)
      : largest(full<float>(-infinity, rows)), total(zeros<float>(rows)),
        output(zeros<float>(rows, width)) {}

  // A part of each row, [rows] and [rows, width]; or several of the only row, [parts] and [parts,
  // width], which are summed in an order that their number fixes. A part that has seen nothing,
  // with an lse of -inf, may hold anything.
  void add(const Tile<float> &lse, const Tile<float> &o, bool together = false) {
    auto before = largest;
    largest = maximum(largest, together ? max(lse, 0) : lse);
    auto base = where(largest == -infinity, 0.0f, largest);
    auto keep = exp(before - base), weight = exp(lse - base);
    auto weighted = where(expand(lse == -infinity, 1), 0.0f, o * expand(weight, 1));
    total = total * keep + (together ? sum(weight, 0) : weight);
    output = output * expand(keep, 1) + (together ? expand(sum(weighted, 0), 0) : weighted);
  }

  // 0 for rows of which no part has seen anything.
  Tile<float> result() const { return output / expand(where(total == 0.0f, 1.0f, total), 1); }
  Tile<float> logarithm() const { return where(total == 0.0f, -infinity, largest + log(total)); }

private:
  static constexpr float infinity = std::numeric_limits<float>::infinity();
};

struct MergeConfig {
  int m = 16, warps = 4; // m: rows of a program
  int width = 64;        // D, up to the next multiple of 16
  int parts = 1;         // loaded together; of one row a program, where they are several
};

// Of one row a program, for so many parts.
inline MergeConfig mergeRowConfig(std::int64_t parts, int width) {
  const int together = static_cast<int>(std::bit_ceil(std::clamp<std::uint64_t>(parts, 2, 32)));
  return {.m = 1, .warps = together > 8 ? 4 : 1, .width = width, .parts = together};
}

// One row's parts, [parts, width] and [parts], some at a time.
template <class In>
MergedRows mergeOneRow(const View<const In, 2> &partial, const View<const float, 1> &logs,
                       const MergeConfig &config) {
  const int parts = config.parts;
  MergedRows merged(1, config.width);
  for (auto step : range(0, cdiv(partial.extent(0), parts)))
    merged.add(logs.tile(parts).padding(-std::numeric_limits<float>::infinity()).load(step),
               cast<float>(partial.tile(parts, config.width).load(step, 0)), /*together=*/true);
  return merged;
}

// One token of one head: partial [P, T, H, D] and logs [P, H, T] become o [T, H, D] and lse [H, T].
// Tokens behind the last sequence, where starts say where sequences begin, have no parts, and their
// rows stay what they are.
template <class Out>
Kernel mergeTokens{
    "attention_merge",
    [](View<const float, 4> partial, View<const float, 3> logs, View<const std::int32_t, 1> starts,
       View<Out, 3> o, View<float, 2> lse, const MergeConfig &config) {
      const Int token = program_id(0), head = program_id(1), sequences = starts.extent(0) - 1;
      const auto end = load(starts.ptr() + cast<std::int64_t>(sequences) * starts.stride(0),
                            sequences >= 0, std::numeric_limits<std::int32_t>::max());
      when(cast<Index>(end) > token, [&] {
        const MergedRows merged = mergeOneRow<float>(partial.fix(2, head).fix(1, token),
                                                     logs.fix(2, token).fix(1, head), config);
        o.fix(1, head).tile(1, config.width).store(token, 0, merged.result());
        lse.at(head).tile(1).store(token, merged.logarithm());
      });
    }};

// States of part p in partial[p]. The parts are added in an order that their number fixes, so that
// the same states give the same bits.
template <class In, class Out>
Kernel mergeStates{
    "attention_merge", [](View<const In, 5> partial, View<const float, 4> logs, View<Out, 4> o,
                          View<float, 3> lse, const MergeConfig &config) {
      const int m = config.m, width = config.width, parts = config.parts;
      auto rows = program_id(0), head = program_id(1), batch = program_id(2);
      MergedRows merged(m, width);
      if (parts == 1) {
        for (auto part : range(0, partial.extent(0)))
          merged.add(logs.at(part, batch, head).tile(m).load(rows),
                     cast<float>(partial.at(part, batch, head).tile(m, width).load(rows, 0)));
      } else {
        merged = mergeOneRow<In>(partial.fix(3, rows).fix(2, head).fix(1, batch),
                                 logs.fix(3, rows).fix(2, head).fix(1, batch), config);
      }
      o.at(batch, head).tile(m, width).store(rows, 0, merged.result());
      lse.at(batch, head).tile(m).store(rows, merged.logarithm());
    }};

} // namespace sectile
