// The kernel of attention over pages, which decoding and chunked prefill share: a program takes
// rows of one sequence and of one head of the cache. Its rows are the queries of all heads that
// share the cache's head, so that what is read from pages is used for all of them.
#pragma once
#include "kernels/attention/Forward.h"
#include "kernels/attention/OptionScores.h"
#include "kernels/serving/Pages.h"

namespace sectile::serving {

struct PageConfig {
  int splits = 1, page = 16;
  bool packed = false; // several queries of a sequence, whose ends cu_seqlens_q says; else one
  bool kScaled = false, vScaled = false;
};
SECTILE_CONFIG(PageConfig, splits, page, packed, kScaled, vScaled)
// With `overlap` a page has whole steps, of T, which a warp of its own copies.
struct PagedConfig : AttentionConfig, PageConfig {};
constexpr auto sectileConfigFields(std::type_identity<PagedConfig>) {
  return std::tuple_cat(config_fields<AttentionConfig>, config_fields<PageConfig>);
}

// By the names of the call's arguments. o and lse are those of each of `splits` parts of the keys.
template <class T, class C, class Out> struct PagedTensors {
  View<const T, 3> q;
  View<const C, 4> k_cache, v_cache;
  View<const std::int32_t, 1> context_lens;
  View<const std::int32_t, 2> block_tables;
  View<const std::int32_t, 1> cu_seqlens_q;
  View<const float, 2> sinks, k_scale, v_scale;
  View<Out, 4> o;
  View<float, 3> lse;
  flash::Numbers numbers;
  blockwise::OptionNumbers limits;
};
template <class T, class C, class Out>
SECTILE_STRUCT((PagedTensors<T, C, Out>), q, k_cache, v_cache, context_lens, block_tables,
               cu_seqlens_q, sinks, k_scale, v_scale, o, lse, numbers, limits)

// Rows of a sequence: row r is query r / group of head r % group among those of the cache's head.
struct RowBlock {
  Int sequence, block;
  Int query, queries; // the sequence's first query, and how many it has
};

// The blocks of sequence s have the numbers from cu[s] * group / m + s on: as many as it needs or
// one more, wherever it begins.
inline RowBlock packedRows(const View<const std::int32_t, 1> &cu, const Int &sequences,
                           const PagedConfig &config) {
  constexpr int width = 256;
  const int m = config.m, group = config.group;
  // All tokens times the group may be more than 32 bits hold.
  auto blocksBefore = [&](const auto &token) { return token / m * group + token % m * group / m; };
  auto number = blockwise::queryBlock();
  auto before = zeros<std::int32_t>(width); // sequences that begin up to here
  for (auto chunk : range(0, cdiv(sequences, width))) {
    auto s = chunk * width + arange(0, width);
    auto start = load(cu.ptr() + cast<std::int64_t>(s) * cu.stride(0), s < sequences);
    before += cast<std::int32_t>(s < sequences && blocksBefore(start) + s <= number);
  }
  Int s = cast<Index>(sum(before, 0)) - 1;
  auto boundary = [&](const Int &at) {
    return cast<Index>(load(cu.ptr() + cast<std::int64_t>(at) * cu.stride(0)));
  };
  Int begin = boundary(s), end = boundary(s + 1);
  return {s, number - (blocksBefore(begin) + s), begin, end - begin};
}

inline RowBlock singleRows(const PagedConfig &config) {
  const int blocks = (config.group + config.m - 1) / config.m;
  auto number = program_id(0);
  return {number / blocks, number % blocks, number / blocks, 1};
}

// Steps of n keys, of which a page has a whole number, where all keys are there and may be seen:
// the engine copies what lies in pages as it is. `rest` becomes the other steps, at either end.
// There a page may hold anything, which threads leave out.
inline blockwise::Visits wholeSteps(blockwise::Visits &rest, const PagedConfig &config) {
  blockwise::Visits whole = rest;
  const Int first = rest.first, end = maximum(rest.first, rest.end);
  if (config.left)
    whole.first = clamp(cdiv(rest.firstSeen, config.n), first, end);
  whole.end = clamp(rest.endSeen / config.n, whole.first, end);
  if (config.left) {
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

template <class T, class C, class Out>
Kernel pagedAttention{
    "paged_attention", [](PagedTensors<T, C, Out> in, const PagedConfig &config) {
      using namespace blockwise;
      const int n = config.n, width = config.width, group = config.group;
      const Int kvHead = program_id(1), head = kvHead * group,
                part = config.splits > 1 ? Int(program_id(2)) : Int(0);
      const RowBlock at = config.packed
                              ? packedRows(in.cu_seqlens_q, in.context_lens.extent(0), config)
                              : singleRows(config);
      // There are more programs than blocks.
      auto exists = PackedRows{group}.query(at.block * config.m) < at.queries;
      auto length =
          load(in.context_lens.ptr() + cast<std::int64_t>(at.sequence) * in.context_lens.stride(0));
      const Int keys =
          where(exists, clamp(cast<Index>(length), 0, in.block_tables.extent(1) * config.page), 0);
      const OptionScores options(config, in.limits, View<const T, 4>(), View<const bool, 4>());
      const Scores scores = options.of<T>({at.sequence, head, at.queries, keys}, in.numbers);

      const auto table = in.block_tables.at(at.sequence);
      const PagedHead<T, C> keyPages{in.k_cache.fix(1, kvHead), in.k_scale.fix(1, kvHead)},
          valuePages{in.v_cache.fix(1, kvHead), in.v_scale.fix(1, kvHead)};
      auto take = [&](OnlineSoftmax &softmax, const Tile<T> &query, const Visits &steps) {
        Visits rest = steps;
        if constexpr (std::is_same_v<C, T>)
          if (config.overlap) {
            const int ofPage = config.page / n;
            auto whole = [&](const Int &step) -> BlockOperands<T> {
              auto entry = load(table.ptr() + cast<std::int64_t>(step / ofPage) * table.stride(0));
              const Int page = maximum(cast<Index>(entry), 0);
              auto tileOf = [=](const View<const C, 3> &pages) {
                return pages.at(page).tile(n, width).load(step % ofPage, 0);
              };
              return {[=] { return tileOf(keyPages.pages); },
                      [=] { return tileOf(valuePages.pages); }};
            };
            const Visits between = wholeSteps(rest, config);
            takeIn(softmax, query, at.block, between, whole, scores,
                   {.stages = config.stages, .warp_specialize = true});
          }
        auto gathered = [&](const Int &step) {
          const Slots slots =
              slotsOf(table, config.page, n, step * n, steps.firstSeen, steps.endSeen);
          BlockOperands<T> of{[=] { return keyPages.load(slots, width); },
                              [=] { return valuePages.load(slots, width); }};
          if (config.kScaled)
            of.keyScales = [=] { return keyPages.scale(slots); };
          if (config.vScaled)
            of.valueScales = [=] { return valuePages.scale(slots); };
          return of;
        };
        if (config.vScaled)
          softmax.valueScales.emplace();
        takeIn(softmax, query, at.block, rest, gathered, scores,
               {.stages = config.overlap ? 1 : config.stages});
      };
      // The heads that share keys, and the sequence's tokens.
      auto ofRows = [&](const auto &view) {
        return view.slice(0, head, group).slice(1, at.query, at.queries);
      };
      attendPacked<T>(at.block, part, config.splits, ofRows(in.q.permuted({1, 0, 2})),
                      ofRows(in.o.at(part).permuted({1, 0, 2})),
                      ofRows(in.lse.at(part).transposed()), scores, in.sinks.slice(0, head, group),
                      take);
    }};

} // namespace sectile::serving
