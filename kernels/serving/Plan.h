// Plans of decoding over pages: into which parts the keys of each sequence are cut, by the
// sequences' lengths. A plan is an array [parts, 4] on the device, a row for each part:
//
//   sequence   its number; -1: there is no such part. Parts are in the order of sequences and keys,
//              at least one for each sequence, and what is not used is behind them
//   first, end the part's first key, a multiple of planStep, and the one behind its last
//   parts      how many parts its sequence has, in the first of them; 0 in the others
#pragma once
#include "kernels/attention/Varlen.h"
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

// The queries of a part's sequence: one, `queries`, or what `starts` of `total` tokens say, which
// is no more than `queries`. None of a row that is not used.
struct PlannedQueries {
  Int sequence, first, count;

  PlannedQueries(const PlanRow &row, const View<const std::int32_t, 1> &starts, const Int &total,
                 bool packed, bool several, const Int &queries) {
    sequence = first = maximum(row.sequence, 0);
    count = 1;
    if (packed) {
      const auto tokens = blockwise::tokensOf(starts, sequence, total);
      device_assert(tokens.length <= queries, "no sequence has more than max_queries queries");
      first = tokens.first;
      count = minimum(tokens.length, queries);
    } else if (several) {
      first = sequence * queries;
      count = queries;
    }
    count = where(row.sequence >= 0, count, 0);
  }
};

struct PlannedFlags {
  bool packed = false, several = false; // as of flash::PageConfig
};
using PlannedMergeConfig = JoinedConfig<MergeConfig, PlannedFlags>;

// Merges each sequence's parts, [parts, queries, heads, width] and [parts, queries, heads], in the
// programs of the first of them.
template <class Out>
Kernel mergePlanned{
    "paged_merge", [](View<const float, 4> partial, View<const float, 3> logs,
                      View<const std::int32_t, 2> plan, View<const std::int32_t, 1> starts,
                      View<Out, 3> o, View<float, 2> lse, const PlannedMergeConfig &config) {
      const Int queries = partial.extent(1), head = program_id(1), program = program_id(0);
      Int number = program, query = 0;
      if (config.several) {
        number = program / queries;
        query = program % queries;
      }
      const PlanRow row(plan, number);
      const PlannedQueries of(row, starts, o.extent(0), config.packed, config.several, queries);
      when(row.parts > 0 && query < of.count, [&] {
        const MergedRows merged =
            mergeOneRow<float>(partial.fix(2, head).fix(1, query).slice(0, number, row.parts),
                               logs.fix(2, head).fix(1, query).slice(0, number, row.parts), config);
        o.fix(1, head).tile(1, config.width).store(of.first + query, 0, merged.result());
        lse.fix(1, head).tile(1).store(of.first + query, merged.logarithm());
      });
    }};

} // namespace serving
} // namespace sectile
