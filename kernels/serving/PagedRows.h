// Which rows and keys a program over pages has: those of a sequence, of a part of a plan, or of a
// packed chunk; and which of its steps lie within pages.
#pragma once
#include "kernels/attention/Scores.h"
#include "kernels/attention/Varlen.h"
#include "kernels/serving/Plan.h"

namespace sectile::serving {

using blockwise::PackedBlock, blockwise::PackedRows, blockwise::Tokens, blockwise::Visits,
    blockwise::packedBlock, blockwise::queryBlock, blockwise::tokensOf;

// Rows of a sequence: row r is query r / group of head r % group among those of the cache's head.
struct RowBlock {
  Int sequence, block;
  Int query, queries; // the sequence's first query, and how many it has
  Int place;          // of that query's results among all
};

// Config: of a loop, or of lists.
template <class Config>
RowBlock packedRows(const View<const std::int32_t, 1> &starts, const Int &total,
                    const Config &config) {
  const PackedBlock at = packedBlock(starts, total, config.m, queryBlock(), config.group);
  const Tokens tokens = tokensOf(starts, at.sequence, total);
  return {at.sequence, at.block, tokens.first, tokens.length, tokens.first};
}

// Of launches that have as many programs for each sequence, or each part of a plan, as for any
// other: those for `queries` of its queries.
template <class Config>
RowBlock evenRows(const Config &config, const flash::PageConfig &pages, const Int &queries) {
  const Int number = program_id(0);
  if (!pages.several) {
    const int blocks = (config.group + config.m - 1) / config.m;
    const Int sequence = number / blocks;
    return {sequence, number % blocks, sequence, 1, sequence};
  }
  const Int blocks = cdiv(queries * config.group, config.m), sequence = number / blocks,
            first = sequence * queries;
  return {sequence, number % blocks, first, queries, first};
}

// Rows of a plan's part, and its keys.
struct PlannedRows {
  RowBlock rows;
  Int firstKey, endKey;
};

template <class Config>
PlannedRows plannedRows(const View<const std::int32_t, 2> &plan,
                        const View<const std::int32_t, 1> &starts, const Int &total,
                        const Config &config, const flash::PageConfig &pages, const Int &queries) {
  const RowBlock part = evenRows(config, pages, queries);
  const PlanRow row(plan, part.sequence);
  const PlannedQueries of(row, starts, total, pages.packed, pages.several, queries);
  return {{of.sequence, part.block, of.first, of.count, part.place}, row.first, row.end};
}

// What a program has: rows of a sequence, with so many keys. None where the rows do not exist, as
// there are more programs than blocks.
struct Work {
  RowBlock rows;
  Int keys;
  std::optional<PlannedRows> planned = {};
};

// total: tokens of all sequences; queries: of each; room: keys of a table.
template <class Config>
Work workOf(const Config &config, const flash::PageConfig &pages,
            const View<const std::int32_t, 1> &lengths,
            const View<const std::int32_t, 1> &queryStarts, const View<const std::int32_t, 2> &plan,
            const Int &total, const Int &queries, const Int &room) {
  std::optional<PlannedRows> planned;
  if (pages.planned)
    planned = plannedRows(plan, queryStarts, total, config, pages, queries);
  const RowBlock rows = planned        ? planned->rows
                        : pages.packed ? packedRows(queryStarts, total, config)
                                       : evenRows(config, pages, queries);
  const Bool exists = PackedRows{config.group}.query(rows.block * config.m) < rows.queries;
  auto length = load(lengths.ptr() + cast<std::int64_t>(rows.sequence) * lengths.stride(0));
  return {rows, where(exists, clamp(cast<Index>(length), 0, room), 0), planned};
}

// Steps of n keys, of which a page has a whole number, where all keys are there and may be seen:
// the engine copies what lies in pages as it is. `rest` becomes the other steps, at either end.
// There a page may hold anything, which threads leave out.
inline Visits wholeSteps(Visits &rest, const flash::LoopConfig &config) {
  Visits whole = rest;
  const Int first = rest.first, end = maximum(rest.first, rest.end),
            firstWhole = cdiv(rest.firstSeen, config.n), endWhole = rest.endSeen / config.n;
  if (rest.list) {
    // A list has only blocks that reach into the interval, in order: its first and its last one
    // alone may lie there in part. An empty list has no number but that of how many there are.
    const auto blockOf = [&](const Int &step) {
      return rest.list->blockOf(where(first < end, step, -1));
    };
    whole.first = first + where(first < end && blockOf(first) < firstWhole, Int(1), Int(0));
    whole.end = end - where(whole.first < end && blockOf(end - 1) >= endWhole, Int(1), Int(0));
  } else {
    if (rest.wholeFirst)
      whole.first = clamp(firstWhole, first, end);
    whole.end = clamp(endWhole, whole.first, end);
  }
  if (rest.wholeFirst || rest.list) {
    const Int before = whole.first - first, behind = whole.end - before;
    rest.first = 0;
    rest.end = end - behind;
    rest.list = {rest.end,
                 [=, of = whole](const Int &step) {
                   return of.block(step + where(step < before, first, behind));
                 },
                 {}};
  } else {
    rest.first = whole.end;
  }
  return whole;
}

} // namespace sectile::serving
