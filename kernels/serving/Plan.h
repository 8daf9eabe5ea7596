// Plans of decoding over pages: into which parts the keys of each sequence are cut, by the
// sequences' lengths. A plan is an array [parts, 4] on the device, a row for each part:
//
//   sequence   its number; -1: there is no such part. Parts are in the order of sequences and keys,
//              at least one for each sequence, and what is not used is behind them
//   first, end the part's first key, a multiple of planStep, and the one behind its last
//   parts      how many parts its sequence has, in the first of them; 0 in the others
#pragma once
#include "kernels/serving/Merge.h"
#include <string>

namespace sectile {

struct Invocation;

// Parts begin at multiples of so many keys, and so do steps of a loop: it is a multiple of theirs.
constexpr int planStep = 256;

// Throws InputError for fewer parts than sequences; `what` says how many there are.
void checkParts(const Invocation &call, std::int64_t parts, const std::string &what);

namespace serving {

// A row, read as numbers of one thread each: loops that a warp of its own copies for have no tiles
// before them.
struct PlanRow {
  Int sequence, first, end, parts;

  PlanRow(const View<const std::int32_t, 2> &plan, const Int &row) {
    const auto number = [&](int column) {
      return cast<Index>(load(plan.ptr() + cast<std::int64_t>(row) * plan.stride(0) +
                              std::int64_t(column) * plan.stride(1)));
    };
    sequence = number(0);
    first = number(1);
    end = number(2);
    parts = number(3);
  }
};

// Merges each sequence's parts, [parts, heads, width] and [parts, heads], in the program of the
// first of them.
template <class Out>
Kernel mergePlanned{
    "paged_merge",
    [](View<const float, 3> partial, View<const float, 2> logs, View<const std::int32_t, 2> plan,
       View<Out, 3> o, View<float, 2> lse, const MergeConfig &config) {
      const Int number = program_id(0), head = program_id(1);
      const PlanRow row(plan, number);
      when(row.parts > 0, [&] {
        const MergedRows merged =
            mergeOneRow<float>(partial.fix(1, head).slice(0, number, row.parts),
                               logs.fix(1, head).slice(0, number, row.parts), config);
        o.fix(1, head).tile(1, config.width).store(row.sequence, 0, merged.result());
        lse.fix(1, head).tile(1).store(row.sequence, merged.logarithm());
      });
    }};

} // namespace serving
} // namespace sectile
