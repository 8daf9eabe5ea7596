// The loop over pages of <sectile/flash/loops.h>, which decoding and chunked prefill share: a
// program takes rows of one sequence and of one head of the cache. Its rows are the queries of all
// heads that share the cache's head, so that what is read from pages is used for all of them.
#include "kernels/attention/Forward.h"
#include "kernels/attention/Varlen.h"
#include "kernels/serving/Pages.h"
#include "kernels/serving/Plan.h"

using namespace sectile;
using namespace sectile::blockwise;
using serving::PagedHead, serving::Slots, serving::slotsOf;

namespace {

// Rows of a sequence: row r is query r / group of head r % group among those of the cache's head.
struct RowBlock {
  Int sequence, block;
  Int query, queries; // the sequence's first query, and how many it has
  Int place;          // of that query's results among all
};

RowBlock packedRows(const View<const std::int32_t, 1> &starts, const Int &total,
                    const LoopConfig &config) {
  const PackedBlock at = packedBlock(starts, total, config.m, queryBlock(), config.group);
  const Tokens tokens = tokensOf(starts, at.sequence, total);
  return {at.sequence, at.block, tokens.first, tokens.length, tokens.first};
}

RowBlock singleRows(const LoopConfig &config) {
  const int blocks = (config.group + config.m - 1) / config.m;
  auto number = program_id(0);
  const Int sequence = number / blocks;
  return {sequence, number % blocks, sequence, 1, sequence};
}

// Rows of a plan's part, and its keys.
struct PlannedRows {
  RowBlock rows;
  Int firstKey, endKey;
};

PlannedRows plannedRows(const View<const std::int32_t, 2> &plan, const LoopConfig &config) {
  const RowBlock part = singleRows(config);
  const serving::PlanRow row(plan, part.sequence);
  const Int sequence = maximum(row.sequence, 0);
  return {{sequence, part.block, sequence, where(row.sequence >= 0, Int(1), Int(0)), part.place},
          row.first,
          row.end};
}

// Steps of n keys, of which a page has a whole number, where all keys are there and may be seen:
// the engine copies what lies in pages as it is. `rest` becomes the other steps, at either end.
// There a page may hold anything, which threads leave out.
Visits wholeSteps(Visits &rest, const LoopConfig &config) {
  Visits whole = rest;
  const Int first = rest.first, end = maximum(rest.first, rest.end);
  if (rest.wholeFirst)
    whole.first = clamp(cdiv(rest.firstSeen, config.n), first, end);
  whole.end = clamp(rest.endSeen / config.n, whole.first, end);
  if (rest.wholeFirst) {
    const Int before = whole.first - first, behind = whole.end - before;
    rest.first = 0;
    rest.end = end - behind;
    rest.list = {
        rest.end, [=](const Int &step) { return step + where(step < before, first, behind); }, {}};
  } else {
    rest.first = whole.end;
  }
  return whole;
}

} // namespace

template <class T, class C, class Out>
void flash::tracePages(const LoopConfig &config, const PageConfig &pages,
                       const PagedTensors<T, C, Out> &tensors, const Numbers &numbers,
                       const Modifier &modifier, const AnyVisibility &visibility) {
  const auto &[q, k, v, lengths, tables, queryStarts, plan, sinks, kScales, vScales, o, lse] =
      tensors;
  const int n = config.n, width = config.width, group = config.group;
  const Int kvHead = program_id(1), head = kvHead * group,
            part = pages.splits > 1 ? Int(program_id(2)) : Int(0);
  std::optional<PlannedRows> planned;
  if (pages.planned)
    planned = plannedRows(plan, config);
  const RowBlock at = planned        ? planned->rows
                      : pages.packed ? packedRows(queryStarts, q.extent(0), config)
                                     : singleRows(config);
  // There are more programs than blocks.
  auto exists = PackedRows{group}.query(at.block * config.m) < at.queries;
  auto length = load(lengths.ptr() + cast<std::int64_t>(at.sequence) * lengths.stride(0));
  const Int keys = where(exists, clamp(cast<Index>(length), 0, tables.extent(1) * pages.page), 0);
  const Scores scores{.config = config,
                      .sequence = {at.sequence, head, at.queries, keys, at.query},
                      .numbers = numbers,
                      .modifier = modifier,
                      .visibility = visibility,
                      .coarse = sizeof(T) == 2};
  visibility.require(scores.sequence);

  const auto table = tables.at(at.sequence);
  const PagedHead<T, C> keyPages{k.fix(1, kvHead), kScales.fix(1, kvHead)},
      valuePages{v.fix(1, kvHead), vScales.fix(1, kvHead)};
  auto take = [&](OnlineSoftmax &softmax, const Tile<T> &query) {
    const Visits all = scores.keys(at.block, false),
                 steps = planned ? all.within(planned->firstKey, planned->endKey, n)
                                 : all.part(part, pages.splits);
    Visits rest = steps;
    if constexpr (std::is_same_v<C, T>)
      if (config.overlap) {
        const int ofPage = pages.page / n;
        auto whole = [&](const Int &step) -> BlockOperands<T> {
          auto entry = load(table.ptr() + cast<std::int64_t>(step / ofPage) * table.stride(0));
          const Int page = maximum(cast<Index>(entry), 0);
          auto tileOf = [=](const View<const C, 3> &of) {
            return of.at(page).tile(n, width).load(step % ofPage, 0);
          };
          return {[=] { return tileOf(keyPages.pages); }, [=] { return tileOf(valuePages.pages); }};
        };
        const Visits between = wholeSteps(rest, config);
        takeIn(softmax, query, at.block, between, whole, scores,
               {.stages = config.stages, .warp_specialize = true});
      }
    auto gathered = [&](const Int &step) {
      const Slots slots = slotsOf(table, pages.page, n, step * n, steps.firstSeen, steps.endSeen);
      BlockOperands<T> of{[=] { return keyPages.load(slots, width); },
                          [=] { return valuePages.load(slots, width); }};
      if (pages.kScaled)
        of.keyScales = [=] { return keyPages.scale(slots); };
      if (pages.vScaled)
        of.valueScales = [=] { return valuePages.scale(slots); };
      return of;
    };
    if (pages.vScaled)
      softmax.valueScales.emplace();
    takeIn(softmax, query, at.block, rest, gathered, scores,
           {.stages = config.overlap ? 1 : config.stages});
  };
  // The heads that share keys, and the sequence's tokens.
  auto ofRows = [&](const auto &view, const Int &first) {
    return view.slice(0, head, group).slice(1, first, at.queries);
  };
  attendPacked<T>(
      at.block, planned ? planned->firstKey == 0 : part == 0,
      ofRows(q.permuted({1, 0, 2}), at.query), ofRows(o.at(part).permuted({1, 0, 2}), at.place),
      ofRows(lse.at(part).transposed(), at.place), scores, sinks.slice(0, head, group), take);
}

#define SECTILE_TRACE_PAGES(T, C, Out)                                                             \
  template void flash::tracePages(const LoopConfig &, const PageConfig &,                          \
                                  const PagedTensors<T, C, Out> &, const Numbers &,                \
                                  const Modifier &, const AnyVisibility &);
#define SECTILE_TRACE_CACHES(T, Out)                                                               \
  SECTILE_TRACE_PAGES(T, T, Out)                                                                   \
  SECTILE_TRACE_PAGES(T, float8_e4m3, Out)                                                         \
  SECTILE_TRACE_PAGES(T, std::int8_t, Out)                                                         \
  SECTILE_TRACE_PAGES(T, std::uint8_t, Out)
SECTILE_TRACE_CACHES(half, half)
SECTILE_TRACE_CACHES(half, float)
SECTILE_TRACE_CACHES(bfloat16, bfloat16)
SECTILE_TRACE_CACHES(bfloat16, float)
SECTILE_TRACE_CACHES(float, float)
#undef SECTILE_TRACE_CACHES
#undef SECTILE_TRACE_PAGES
