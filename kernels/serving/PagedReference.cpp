// Attention over pages on the host: packed sequences whose keys are where tables say.
#include "kernels/attention/References.h"
#include "kernels/registry/Registry.h"
#include "kernels/serving/References.h"
#include <algorithm>
#include <sectile/error.h>

using namespace sectile;

namespace {

// Keys that query i of n of sequence s sees.
struct Range {
  std::int64_t first, last;
};
Range seen(const PagedSettings &settings, std::int64_t s, std::int64_t i, std::int64_t n,
           std::int64_t keys) {
  const AttentionSettings &window = settings.attention;
  const std::int64_t place = i + keys - n, chunk = settings.chunk, padding = settings.paddingOf(s);
  Range range{std::clamp<std::int64_t>(window.left < 0 ? 0 : place - window.left, 0, keys), keys};
  if (window.causal)
    range.last = std::clamp<std::int64_t>(place + 1, 0, keys);
  else if (window.right >= 0)
    range.last = std::clamp<std::int64_t>(place + std::min(window.right, keys + n) + 1, 0, keys);
  range.first = std::max(range.first, padding);
  if (chunk > 0) {
    const std::int64_t number = (place - padding) / chunk;
    range.first = std::max(range.first, padding + number * chunk);
    range.last = place < padding ? 0 : std::min(range.last, padding + (number + 1) * chunk);
  }
  return range;
}

// Whether a token sees a node of its sequence's tree, which the last keys are; others it does.
bool isInTree(const PagedSettings &settings, std::int64_t token, std::int64_t node) {
  if (!settings.tree || node < 0)
    return true;
  const std::int64_t words = settings.tree->shape[1];
  if (node / 32 >= words)
    return false;
  const std::int32_t word =
      settings.tree->as<std::int32_t>()[static_cast<std::size_t>(token * words + node / 32)];
  return (static_cast<std::uint32_t>(word) >> (node % 32) & 1) != 0;
}

// Row `row` of a cache, whose bytes may hold two numbers each.
std::vector<double> cacheRow(const HostArray &cache, std::int64_t row) {
  std::vector<double> codes = rowOf(cache, row), numbers;
  if (cache.dtype != DType::uint8)
    return codes;
  for (const double both : codes)
    for (const int code : {static_cast<int>(both) & 15, static_cast<int>(both) >> 4})
      numbers.push_back(code < 8 ? code : code - 16);
  return numbers;
}

} // namespace

void sectile::checkPagedContents(const Invocation &call, const HostArray &lengths,
                                 const HostArray &tables, const PagedSettings &settings) {
  const std::int64_t sequences = call.extent("S"), maxPages = call.extent("max"),
                     page = call.extent("page"), blocks = call.extent("blocks");
  const auto length = lengths.as<std::int32_t>(), table = tables.as<std::int32_t>();
  for (std::int64_t s = 0; s < sequences; ++s) {
    const std::int64_t keys = length[static_cast<std::size_t>(s)];
    if (keys < 0 || keys > maxPages * page)
      refuse(call, "context_lens[", s, "] is ", keys, ", but must be from 0 to ", maxPages * page,
             ", the keys that a row of block_tables has room for");
    const std::int64_t queries = settings.first(s + 1) - settings.first(s);
    if (queries == 0)
      continue;
    const std::int64_t last = seen(settings, s, queries - 1, queries, keys).last;
    for (std::int64_t p = seen(settings, s, 0, queries, keys).first / page; p * page < last; ++p)
      if (const std::int64_t block = table[static_cast<std::size_t>(s * maxPages + p)];
          block < 0 || block >= blocks)
        refuse(call, "block_tables[", s, ", ", p, "] is ", block, ", but there are ", blocks,
               " blocks");
  }
}

static HostArray sideBySide(const HostArray &a, const HostArray &b) {
  HostArray both(a.dtype, {a.shape[0], a.shape[1], a.shape[2] + b.shape[2]});
  std::vector<double> numbers;
  for (std::int64_t row = 0; row < a.shape[0] * a.shape[1]; ++row)
    for (const HostArray *of : {&a, &b})
      std::ranges::copy(rowOf(*of, row), std::back_inserter(numbers));
  both.assign(numbers);
  return both;
}

AttentionResult sectile::pagedReference(const HostArray &plain, const HostArray &kCache,
                                        const HostArray &vCache, const HostArray &lengths,
                                        const HostArray &tables, const PagedSettings &settings,
                                        Arithmetic arithmetic) {
  const std::int64_t sequences = lengths.shape[0], page = kCache.shape[2];
  const HostArray q = settings.valueQueries ? sideBySide(plain, *settings.valueQueries) : plain;
  std::vector<double> first;
  for (std::int64_t s = 0; s <= sequences; ++s)
    first.push_back(static_cast<double>(settings.first(s)));
  const HostArray starts(DType::int32, {sequences + 1}, first);
  ReferenceLayout layout = packedLayout(q, kCache, vCache, starts, starts);
  std::ranges::copy(lengths.as<std::int32_t>(), layout.keys.begin());
  layout.valueWidth *= vCache.dtype == DType::uint8 ? 2 : 1;
  layout.logarithm = layout.query;
  layout.logs = {q.shape[0], q.shape[1]};
  const auto seenBy = [&](std::int64_t s, std::int64_t i) {
    const auto at = static_cast<std::size_t>(s);
    return seen(settings, s, i, layout.queries[at], layout.keys[at]);
  };
  if (settings.chunk > 0 || settings.tree || settings.padding)
    layout.sees = [&](std::int64_t s, std::int64_t i, std::int64_t j) {
      const auto at = static_cast<std::size_t>(s);
      const Range range = seenBy(s, i);
      return range.first <= j && j < range.last &&
             isInTree(settings, layout.firstQuery[at] + i,
                      j - (layout.keys[at] - layout.queries[at]));
    };
  const auto readKey = [&](const HostArray &cache, std::int64_t s, std::int64_t h, std::int64_t j) {
    const std::int64_t queries = layout.queries[static_cast<std::size_t>(s)];
    const bool keys = &cache == &kCache;
    // Entries of pages that nobody sees may be anything.
    if (queries == 0 || j < seenBy(s, 0).first || j >= seenBy(s, queries - 1).last)
      return std::vector<double>(
          static_cast<std::size_t>(keys ? plain.shape[2] : layout.valueWidth));
    const std::int64_t block =
        tables.as<std::int32_t>()[static_cast<std::size_t>(s * tables.shape[1] + j / page)];
    std::vector<double> row = cacheRow(cache, (block * layout.kvHeads + h) * page + j % page);
    const auto multiply = [&](const HostArray *scales, std::int64_t at) {
      for (double &number : row)
        number *= scales ? scales->as<float>()[static_cast<std::size_t>(at)] : 1.0f;
    };
    if (const HostArray *scale = keys ? settings.kScale : settings.vScale)
      multiply(scale, (scale->shape[0] == 1 ? 0 : block) * layout.kvHeads + h);
    multiply(keys ? settings.kScales : settings.vScales,
             (block * layout.kvHeads + h) * page + j % page);
    return row;
  };
  layout.readKey = [&](const HostArray &cache, std::int64_t s, std::int64_t h, std::int64_t j) {
    std::vector<double> row = readKey(cache, s, h, j);
    if (settings.valueQueries && &cache == &kCache)
      std::ranges::copy(readKey(vCache, s, h, j), std::back_inserter(row));
    return row;
  };
  return attentionReference(layout, q, kCache, vCache, settings.attention, arithmetic);
}
