// The loop of latent attention.
#include "kernels/attention/Forward.h"
#include "kernels/serving/Latent.h"
#include "kernels/serving/PagedRows.h"
#include "kernels/serving/Pages.h"

using namespace sectile;
using namespace sectile::blockwise;
using namespace sectile::serving;

namespace {

// Numbers [n, width] of T, each 128 of which are multiplied by a scale.
template <class T, class C>
Tile<T> latentsOf(const View<const C, 3> &latents, const View<const float, 3> &groups,
                  const Slots &slots, const LatentConfig &config) {
  if (!config.grouped)
    return PagedHead<T, C>{latents}.load(slots, config.width);
  const int n = config.n, count = config.width / 128;
  const auto codes = PagedHead<float, C>{latents}.load(slots, config.width);
  const auto scales = PagedHead<float, float>{groups}.load(slots, count);
  return cast<T>(reshape(reshape(codes, n, count, 128) * expand(scales, 2), n, config.width));
}

// Of keys in an order of their own: key j of a query is in slot list[j], if that is not negative.
Slots listedSlots(const View<const std::int32_t, 1> &list, int page, int n, const Int &start,
                  const Int &end) {
  const auto j = start + arange(0, n);
  const auto slot = load(list.ptr() + cast<std::int64_t>(j) * list.stride(0), j < end, -1);
  const auto place = maximum(cast<Index>(slot), 0);
  return {cast<std::int64_t>(place / page), place % page, slot >= 0};
}

} // namespace

template <class T, class C, class R, class Out>
void serving::traceLatent(const LatentConfig &config, const LatentTensors<T, C, R, Out> &tensors,
                          const flash::Numbers &numbers) {
  const auto &[q, latents, rest, groups, scale, lengths, tables, queryStarts, plan, sinks, o, lse,
               queries] = tensors;
  const int n = config.n;
  const Int part = config.splits > 1 ? Int(program_id(2)) : Int(0);
  const Work work = [&]() -> Work {
    if (!config.listed)
      return workOf(config, config, lengths, queryStarts, plan, q.extent(0), queries,
                    tables.extent(1) * config.page);
    const RowBlock rows = evenRows(config, config, queries);
    Int keys = tables.extent(1);
    if (config.counted)
      keys = clamp(
          cast<Index>(load(lengths.ptr() + cast<std::int64_t>(rows.sequence) * lengths.stride(0))),
          0, keys);
    return {rows, keys};
  }();
  const RowBlock &at = work.rows;
  const flash::Erased<flash::Causal> causal{flash::Causal()};
  const flash::Erased<flash::Everything> everything{flash::Everything()};
  const Scores scores =
      scoresOf<T>(config, {at.sequence, 0, at.queries, work.keys, at.query},
                  {numbers,
                   {},
                   config.causal ? static_cast<const flash::AnyVisibility &>(causal) : everything});
  const auto table = tables.at(at.sequence);
  const PackedBlockRows rows(config, at.block, at.queries);
  // The heads, and the sequence's tokens.
  const auto ofRows = [&](const auto &view, const Int &first) {
    return view.slice(1, first, at.queries);
  };
  const auto queryRows = ofRows(q.permuted({1, 0, 2}), at.query);
  const Int width = latents.extent(2);
  const Tile<T> otherQueries =
      rows.load(queryRows.slice(2, width, q.extent(2) - width), config.rest);
  // Latents are loaded once, for keys and for values.
  const auto operandsOf = [&](const Tile<T> &latent, const Tile<T> &other) {
    BlockOperands<T> of{[=] { return latent; }, [=] { return latent; }};
    of.otherProducts = [=, &config] {
      return dot(otherQueries, trans(other), zeros<float>(config.m, config.n), precisionOf(config));
    };
    return of;
  };
  const auto take = [&](OnlineSoftmax &softmax, const Tile<T> &query) {
    const Visits all = scores.keys(at.block, false),
                 steps = !work.planned
                             ? all.part(part, config.splits)
                             : all.within(work.planned->firstKey, work.planned->endKey, n);
    Visits remaining = steps;
    if constexpr (std::is_same_v<C, T>)
      if (config.overlap) {
        const int ofPage = config.page / n;
        const auto whole = [&](const Int &step) {
          const auto entry =
              load(table.ptr() + cast<std::int64_t>(step / ofPage) * table.stride(0));
          const Int page = maximum(cast<Index>(entry), 0);
          const auto tileOf = [&](const View<const T, 3> &of, int columns) {
            return of.at(page).tile(n, columns).load(step % ofPage, 0);
          };
          return operandsOf(tileOf(latents, config.width), tileOf(rest, config.rest));
        };
        const Visits between = wholeSteps(remaining, config);
        takeIn(softmax, query, at.block, between, whole, scores,
               {.stages = config.stages, .warp_specialize = true});
      }
    const auto gathered = [&](const Int &step) {
      const Slots slots =
          config.listed ? listedSlots(table, config.page, n, step * n, steps.endSeen)
                        : slotsOf(table, config.page, n, step * n, steps.firstSeen, steps.endSeen);
      BlockOperands<T> of = operandsOf(latentsOf<T, C>(latents, groups, slots, config),
                                       PagedHead<T, R>{rest}.load(slots, config.rest));
      if (config.listed)
        of.present = [=] { return slots.present; };
      if (config.scaled)
        of.keyScales = of.valueScales = [=, &tensors] { return load(tensors.scale.ptr()); };
      return of;
    };
    if (config.scaled)
      softmax.valueScales.emplace();
    takeIn(softmax, query, at.block, remaining, gathered, scores,
           {.stages = config.overlap ? 1 : config.stages});
  };
  attendPacked<T>(at.block, work.planned ? work.planned->firstKey == 0 : part == 0,
                  queryRows.slice(2, 0, width), ofRows(o.at(part).permuted({1, 0, 2}), at.place),
                  ofRows(lse.at(part).transposed(), at.place), scores, sinks, take);
}

#define SECTILE_TRACE_LATENT(T, C, R, Out)                                                         \
  template void serving::traceLatent(const LatentConfig &, const LatentTensors<T, C, R, Out> &,    \
                                     const flash::Numbers &);
#define SECTILE_TRACE_ROWS(T, Out)                                                                 \
  SECTILE_TRACE_LATENT(T, T, T, Out)                                                               \
  SECTILE_TRACE_LATENT(T, float8_e4m3, float8_e4m3, Out)                                           \
  SECTILE_TRACE_LATENT(T, float8_e4m3, bfloat16, Out)
SECTILE_TRACE_ROWS(half, half)
SECTILE_TRACE_ROWS(half, float)
SECTILE_TRACE_ROWS(bfloat16, bfloat16)
SECTILE_TRACE_ROWS(bfloat16, float)
SECTILE_TRACE_ROWS(float, float)
#undef SECTILE_TRACE_ROWS
#undef SECTILE_TRACE_LATENT
