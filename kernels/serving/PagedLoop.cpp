// The loop over pages of <sectile/flash/loops.h>, which decoding and chunked prefill share: a
// program takes rows of one sequence and of one head of the cache. Its rows are the queries of all
// heads that share the cache's head, so that what is read from pages is used for all of them.
#include "kernels/attention/Forward.h"
#include "kernels/attention/Lists.h"
#include "kernels/serving/PagedRows.h"
#include "kernels/serving/Pages.h"

using namespace sectile;
using namespace sectile::blockwise;
using namespace sectile::serving;

template <class T, class C, class Out>
void flash::tracePages(const LoopConfig &config, const PageConfig &pages,
                       const PagedTensors<T, C, Out> &tensors, const ScoreRules &rules,
                       const View<const T, 3> &valueQueries) {
  const auto &[q, k, v, lengths, tables, queryStarts, plan, sinks, kScales, vScales, kKeyScales,
               vKeyScales, o, lse, queries] = tensors;
  const int n = config.n, width = config.width;
  const Int kvHead = program_id(1), head = kvHead * config.group,
            part = pages.splits > 1 ? Int(program_id(2)) : Int(0);
  const auto [at, keys, planned] = workOf(config, pages, lengths, queryStarts, plan, q.extent(0),
                                          queries, tables.extent(1) * pages.page);
  const Scores scores = scoresOf<T>(config, {at.sequence, head, at.queries, keys, at.query}, rules);
  rules.visibility.require(scores.sequence);

  const auto table = tables.at(at.sequence);
  const PagedHead<T, C> keyPages{k.fix(1, kvHead), kScales.fix(1, kvHead),
                                 kKeyScales.fix(1, kvHead), pages.kScaled, pages.kScaledByKey},
      valuePages{v.fix(1, kvHead), vScales.fix(1, kvHead), vKeyScales.fix(1, kvHead), pages.vScaled,
                 pages.vScaledByKey};
  const auto headsFirst = [&](const View<const T, 3> &view) {
    return Tokens{at.query, at.queries}.of(view).permuted({1, 0, 2});
  };
  std::optional<Tile<T>> valueQuery;
  if (pages.valueKeys)
    valueQuery = PackedBlockRows(config, at.block, at.queries)
                     .load(headsFirst(valueQueries).slice(0, head, config.group), width);
  // Values that are keys, too, are loaded once.
  const auto withValueKeys = [&](BlockOperands<T> of) {
    if (!pages.valueKeys)
      return of;
    const Tile<T> values = of.values();
    of.values = [=] { return values; };
    const auto products = [=, &config, scales = of.valueScales] {
      const auto result =
          dot(*valueQuery, trans(values), zeros<float>(config.m, config.n), precisionOf(config));
      return scales ? result * alongKeys(scales()) : result;
    };
    (of.keyScales || of.valueScales ? of.unscaledProducts : of.otherProducts) = products;
    return of;
  };
  auto take = [&](OnlineSoftmax &softmax, const Tile<T> &query) {
    const Visits all = scores.keys(at.block, false),
                 steps = !planned   ? all.part(part, pages.splits)
                         : all.list ? all
                                    : all.within(planned->firstKey, planned->endKey, n);
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
          return withValueKeys(
              {[=] { return tileOf(keyPages.pages); }, [=] { return tileOf(valuePages.pages); }});
        };
        const Visits between = wholeSteps(rest, config);
        takeIn(softmax, query, at.block, between, whole, scores,
               {.stages = config.stages, .warp_specialize = true});
      }
    auto gathered = [&](const Int &step) {
      const Slots slots = slotsOf(table, pages.page, n, step * n, steps.firstSeen, steps.endSeen);
      BlockOperands<T> of{[=] { return keyPages.load(slots, width); },
                          [=] { return valuePages.load(slots, width); }};
      if (pages.kScaled || pages.kScaledByKey)
        of.keyScales = [=] { return *keyPages.scale(slots); };
      if (pages.vScaled || pages.vScaledByKey)
        of.valueScales = [=] { return *valuePages.scale(slots); };
      return withValueKeys(of);
    };
    if (pages.vScaled || pages.vScaledByKey)
      softmax.valueScales.emplace();
    takeIn(softmax, query, at.block, rest, gathered, scores,
           {.stages = config.overlap ? 1 : config.stages});
  };
  const Tokens results{at.place, at.queries};
  attendPacked<T>(at.block, planned ? planned->firstKey == 0 : part == 0, headsFirst(q),
                  results.of(o.at(part)).permuted({1, 0, 2}), results.of(lse.at(part)).transposed(),
                  scores, sinks, take);
}

void flash::tracePagedLists(const PagedListConfig &config, const View<std::int32_t, 4> &lists,
                            const View<const std::int32_t, 1> &lengths,
                            const View<const std::int32_t, 1> &queryStarts,
                            const View<const std::int32_t, 2> &plan, const Int &queries,
                            const Int &keys, const AnyVisibility &visibility) {
  const Int kvHead = program_id(1);
  const Work work = workOf(config, config, lengths, queryStarts, plan, queries, 1, keys);
  const RowBlock &at = work.rows;
  Int from = 0, end = cdiv(work.keys, config.n);
  if (work.planned) {
    from = work.planned->firstKey / config.n;
    end = minimum(end, cdiv(work.planned->endKey, config.n));
  }
  listBlocks(config, lists.at(0, kvHead, program_id(0)),
             {at.sequence, kvHead * config.group, at.queries, work.keys, at.query}, at.block, from,
             end, visibility);
}

#define SECTILE_TRACE_PAGES(T, C, Out)                                                             \
  template void flash::tracePages(const LoopConfig &, const PageConfig &,                          \
                                  const PagedTensors<T, C, Out> &, const ScoreRules &,             \
                                  const View<const T, 3> &);
#define SECTILE_TRACE_CACHES(T, Out)                                                               \
  SECTILE_TRACE_PAGES(T, T, Out)                                                                   \
  SECTILE_TRACE_PAGES(T, float8_e4m3, Out)                                                         \
  SECTILE_TRACE_PAGES(T, float8_e5m2, Out)                                                         \
  SECTILE_TRACE_PAGES(T, std::int8_t, Out)                                                         \
  SECTILE_TRACE_PAGES(T, std::uint8_t, Out)
SECTILE_TRACE_CACHES(half, half)
SECTILE_TRACE_CACHES(half, float)
SECTILE_TRACE_CACHES(bfloat16, bfloat16)
SECTILE_TRACE_CACHES(bfloat16, float)
SECTILE_TRACE_CACHES(float, float)
#undef SECTILE_TRACE_CACHES
#undef SECTILE_TRACE_PAGES
