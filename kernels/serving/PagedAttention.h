// The kernel of attention over pages, which decoding and chunked prefill share: a program takes
// rows of one sequence and of one head of the cache. Its rows are the queries of all heads that
// share the cache's head, so that what is read from pages is used for all of them.
#pragma once
#include "kernels/attention/Scores.h"
#include "kernels/serving/Pages.h"
#include <algorithm>

namespace sectile::serving {

struct PagedConfig {
  int m = 16, n = 64, splits = 1, warps = 4, stages = 2;
  int width = 64, page = 16;
  int group = 1;       // heads of q to a head of the cache
  bool packed = false; // several queries of a sequence, whose ends cu_seqlens says; else one
  bool causal = true, window = false, cap = false;
  int sinks = 0; // of a head, up to the next power of two
  bool kScaled = false, vScaled = false;
  bool overlap = false; // a page has whole steps, of T, which a warp of its own copies
};
SECTILE_CONFIG(PagedConfig, m, n, splits, warps, stages, width, page, group, packed, causal, window,
               cap, sinks, kScaled, vScaled, overlap)

// Rows of a sequence: row r is query r / group of head r % group among those of the cache's head.
struct RowBlock {
  Int sequence, first; // row
  Int query, queries;  // the sequence's first query, and how many it has
};

// The blocks of sequence s have the numbers from cu[s] * group / m + s on: as many as it needs or
// one more, wherever it begins.
inline RowBlock packedRows(const View<const std::int32_t, 1> &cu, const Int &sequences,
                           const PagedConfig &config) {
  constexpr int width = 256;
  auto number = blockwise::queryBlock();
  auto before = zeros<std::int32_t>(width); // sequences that begin up to here
  for (auto chunk : range(0, cdiv(sequences, width))) {
    auto s = chunk * width + arange(0, width);
    auto start = load(cu.ptr() + cast<std::int64_t>(s) * cu.stride(0), s < sequences);
    before += cast<std::int32_t>(s < sequences && start * config.group / config.m + s <= number);
  }
  Int s = cast<Index>(sum(before, 0)) - 1;
  auto boundary = [&](const Int &at) {
    return cast<Index>(load(cu.ptr() + cast<std::int64_t>(at) * cu.stride(0)));
  };
  Int begin = boundary(s), end = boundary(s + 1);
  Int block = number - (begin * config.group / config.m + s);
  return {s, block * config.m, begin, end - begin};
}

inline RowBlock singleRows(const PagedConfig &config) {
  const int blocks = (config.group + config.m - 1) / config.m;
  auto number = program_id(0);
  return {number / blocks, number % blocks * config.m, number / blocks, 1};
}

// o and lse of each of `splits` parts of the keys; of one part they are the result.
template <class T, class C, class Out>
Kernel pagedAttention{
    "paged_attention",
    [](View<const T, 3> q, View<const C, 4> kCache, View<const C, 4> vCache,
       View<const std::int32_t, 1> lengths, View<const std::int32_t, 2> tables,
       View<const std::int32_t, 1> cu, View<const float, 2> sinks, View<const float, 2> kScale,
       View<const float, 2> vScale, View<Out, 4> o, View<float, 3> lse, Float scale, Float cap,
       Int left, const PagedConfig &config) {
      using namespace blockwise;
      const int m = config.m, n = config.n, width = config.width, group = config.group;
      auto kvHead = program_id(1), part = program_id(2);
      const RowBlock block =
          config.packed ? packedRows(cu, lengths.extent(0), config) : singleRows(config);
      auto rows = block.first + arange(0, m);
      auto query = rows / group;                 // of the sequence
      auto head = kvHead * group + rows % group; // of q
      auto exists = rows < block.queries * group;
      auto token = cast<std::int64_t>(block.query + query);
      auto column = arange(0, width);
      auto inside = expand(exists, 1) && expand(column < q.extent(2), 0);
      auto place = [&](const auto &view, int axis) {
        return expand(token * view.stride(axis) + cast<std::int64_t>(head) * view.stride(axis + 1),
                      1) +
               expand(cast<std::int64_t>(column) * view.stride(axis + 2), 0);
      };
      auto queries = load(q.ptr() + place(q, 0), inside);

      // What the block's rows see of the sequence's keys, and this part of it.
      Int keys = clamp(
          cast<Index>(load(lengths.ptr() + cast<std::int64_t>(block.sequence) * lengths.stride(0))),
          0, tables.extent(1) * config.page);
      Band band{block.queries, keys, keys - block.queries, {}, {}};
      Int first = 0, end = keys;
      if (config.causal) {
        band.right = Int(0);
        Int last = minimum((block.first + (m - 1)) / group, block.queries - 1);
        end = clamp(last + band.offset + 1, 0, keys);
      }
      if (config.window) {
        band.left = left;
        first = maximum(0, block.first / group + band.offset - left);
      }
      end = where(block.first < block.queries * group, end, 0);
      Int firstStep = first / n, lastStep = cdiv(end, n);
      if (config.splits > 1) {
        Int share = cdiv(maximum(lastStep - firstStep, 0), config.splits);
        firstStep += part * share;
        lastStep = minimum(lastStep, firstStep + share);
      }

      OnlineSoftmax state(m, width);
      if (config.sinks) {
        auto r = arange(0, config.sinks);
        auto own =
            load(sinks.ptr() + expand(cast<std::int64_t>(head) * sinks.stride(0), 1) +
                     expand(cast<std::int64_t>(r) * sinks.stride(1), 0),
                 expand(exists && part == 0, 1) && expand(r < sinks.extent(1), 0), -infinity);
        state.enter(own * log2e);
      }
      auto scoresOf = [&](const Tile<T> &keyTile) {
        auto products = dot(queries, trans(keyTile), zeros<float>(m, n), Precision::ieee);
        if (!config.cap)
          return products * (scale * log2e);
        const auto score = flash::Score::ofProducts(products, scale, sizeof(T) == 2);
        return (soft_cap(score, cap) * log2e).value();
      };
      // Most tiles are visible to all rows, and compare nothing.
      auto areAllVisible = [&](const Int &step) {
        return step * n >= first && (step + 1) * n <= end &&
               band.allKeysVisible(block.first / group, (m - 1) / std::max(group, 1) + 2, step * n,
                                   n); // no heads: a group of 0
      };
      auto visible = [&](const Int &step) {
        auto j = step * n + arange(0, n);
        return band.visibleKeys(expand(query, 1), expand(j, 0));
      };
      auto table = tables.at(block.sequence);

      // Steps all of whose keys are there: the engine copies what lies in pages as it is. Behind
      // the last key a page may hold anything, which threads leave out.
      Int behind = firstStep;
      if constexpr (std::is_same_v<C, T>)
        if (config.overlap) {
          behind = clamp(end / n, firstStep, maximum(firstStep, lastStep));
          const int ofPage = config.page / n;
          for (auto step :
               range(firstStep, behind, {.stages = config.stages, .warp_specialize = true})) {
            auto entry = load(table.ptr() + cast<std::int64_t>(step / ofPage) * table.stride(0));
            auto page = maximum(cast<Index>(entry), 0);
            auto tileOf = [&](const View<const C, 4> &cache) {
              return cache.at(page, kvHead).tile(n, width).load(step % ofPage, 0);
            };
            auto scores = scoresOf(tileOf(kCache));
            when(!areAllVisible(step), [&] { scores = where(visible(step), scores, -infinity); });
            auto weights = state.weigh(scores);
            state.add(cast<T>(weights), tileOf(vCache), Precision::ieee);
          }
        }

      auto headOf = [&](const auto &cache, const View<const float, 2> &scales, bool scaled) {
        return PagedHead<T, C>{cache.fix(1, kvHead), scales.fix(1, kvHead), scaled};
      };
      auto keyPages = headOf(kCache, kScale, config.kScaled);
      auto valuePages = headOf(vCache, vScale, config.vScaled);
      for (auto step : range(behind, lastStep, {.stages = config.overlap ? 1 : config.stages})) {
        auto slots = slotsOf(table, config.page, n, step * n, first, end);
        auto scores = scoresOf(keyPages.load(slots, width));
        when(!areAllVisible(step),
             [&] { scores = where(expand(slots.present, 0) && visible(step), scores, -infinity); });
        auto weights = state.weigh(scores);
        state.add(cast<T>(weights), valuePages.load(slots, width), Precision::ieee);
      }
      auto to = o.at(part);
      store(to.ptr() + place(to, 0), state.result(), inside);
      auto logs = lse.at(part);
      store(logs.ptr() + token * logs.stride(0) + cast<std::int64_t>(head) * logs.stride(1),
            state.logarithm(), exists);
    }};

} // namespace sectile::serving
