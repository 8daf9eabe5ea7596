// Attention over pages on the host: each sequence by itself, with its keys and values in a row.
#include "kernels/attention/PackedReference.h"
#include "kernels/registry/Registry.h"
#include "kernels/serving/References.h"
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::packed;

namespace {

// Keys that query i of n of a sequence sees.
struct Range {
  std::int64_t first, last;
};
Range seen(const PagedSettings &settings, std::int64_t i, std::int64_t n, std::int64_t keys) {
  const AttentionSettings &window = settings.attention;
  const std::int64_t place = i + keys - n, chunk = settings.chunk;
  Range range{std::clamp<std::int64_t>(window.left < 0 ? 0 : place - window.left, 0, keys), keys};
  if (window.causal)
    range.last = std::clamp<std::int64_t>(place + 1, 0, keys);
  else if (window.right >= 0)
    range.last = std::clamp<std::int64_t>(place + std::min(window.right, keys + n) + 1, 0, keys);
  if (chunk > 0) {
    const std::int64_t number = place / chunk;
    range.first = std::max(range.first, number * chunk);
    range.last = place < 0 ? 0 : std::min(range.last, (number + 1) * chunk);
  }
  return range;
}

// [1, 1, n, keys]: which keys the queries of a sequence see by their chunks and their tree.
HostArray maskOf(const PagedSettings &settings, std::int64_t firstToken, std::int64_t n,
                 std::int64_t keys) {
  HostArray mask(DType::boolean, {1, 1, n, keys});
  const auto sees = mask.as<bool>();
  const auto inTree = [&](std::int64_t token, std::int64_t node) {
    if (!settings.tree || node < 0)
      return true;
    const std::int64_t words = settings.tree->shape[1];
    if (node / 32 >= words)
      return false;
    const std::int32_t word =
        settings.tree->as<std::int32_t>()[static_cast<std::size_t>(token * words + node / 32)];
    return (static_cast<std::uint32_t>(word) >> (node % 32) & 1) != 0;
  };
  for (std::int64_t i = 0; i < n; ++i) {
    const Range range = seen(settings, i, n, keys);
    for (std::int64_t j = range.first; j < range.last; ++j)
      sees[static_cast<std::size_t>(i * keys + j)] = inTree(firstToken + i, j - (keys - n));
  }
  return mask;
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
    const std::int64_t last = seen(settings, queries - 1, queries, keys).last;
    for (std::int64_t p = seen(settings, 0, queries, keys).first / page; p * page < last; ++p)
      if (const std::int64_t block = table[static_cast<std::size_t>(s * maxPages + p)];
          block < 0 || block >= blocks)
        refuse(call, "block_tables[", s, ", ", p, "] is ", block, ", but there are ", blocks,
               " blocks");
  }
}

// Keys or values [1, Hkv, keys, D] of the blocks that hold keys first, first + 1, … of a sequence,
// times their scales; others are zero.
static HostArray contents(const HostArray &cache, const HostArray *scale,
                          std::span<const std::int32_t> table, const Range &range,
                          std::int64_t keys, Arithmetic arithmetic) {
  const std::int64_t heads = cache.shape[1], page = cache.shape[2], stored = cache.shape[3];
  const std::vector<double> scales = scale ? scale->to_double() : std::vector<double>();
  return with_type(cache.dtype, [&](auto zero) {
    using C = decltype(zero);
    constexpr bool pairs = std::is_same_v<C, std::uint8_t>;
    const auto codes = cache.as<C>();
    const std::int64_t width = pairs ? 2 * stored : stored;
    std::vector<double> values(static_cast<std::size_t>(heads * keys * width));
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t j = range.first; j < range.last; ++j) {
        const std::int64_t block = table[static_cast<std::size_t>(j / page)],
                           from = ((block * heads + h) * page + j % page) * stored;
        const double by =
            scale ? scales[static_cast<std::size_t>((scale->shape[0] == 1 ? 0 : block) * heads + h)]
                  : 1;
        for (std::int64_t d = 0; d < width; ++d) {
          double &value = values[static_cast<std::size_t>((h * keys + j) * width + d)];
          if constexpr (pairs) {
            const int code = codes[static_cast<std::size_t>(from + d / 2)] >> (d % 2 * 4) & 15;
            value = (code < 8 ? code : code - 16) * by;
          } else {
            value = static_cast<double>(codes[static_cast<std::size_t>(from + d)]) * by;
          }
        }
      }
    return HostArray(arithmetic == Arithmetic::exact ? DType::float64 : DType::float32,
                     {1, heads, keys, width}, values);
  });
}

AttentionResult sectile::pagedReference(const HostArray &q, const HostArray &kCache,
                                        const HostArray &vCache, const HostArray &lengths,
                                        const HostArray &tables, const PagedSettings &settings,
                                        Arithmetic arithmetic) {
  const std::int64_t tokens = q.shape[0], heads = q.shape[1], sequences = lengths.shape[0],
                     maxPages = tables.shape[1];
  const std::int64_t width = vCache.shape[3] * (vCache.dtype == DType::uint8 ? 2 : 1);
  AttentionResult result{HostArray(resultOf(q, arithmetic), {tokens, heads, width}),
                         HostArray(statisticsOf(arithmetic), {tokens, heads, 1})};
  for (std::int64_t s = 0; s < sequences; ++s) {
    const std::int64_t first = settings.first(s), queries = settings.first(s + 1) - first,
                       keys = lengths.as<std::int32_t>()[static_cast<std::size_t>(s)];
    if (queries == 0)
      continue;
    const Range range{seen(settings, 0, queries, keys).first,
                      seen(settings, queries - 1, queries, keys).last};
    const auto table = tables.as<std::int32_t>().subspan(static_cast<std::size_t>(s * maxPages),
                                                         static_cast<std::size_t>(maxPages));
    AttentionSettings attention = settings.attention;
    HostArray mask;
    if (settings.chunk > 0 || settings.tree) {
      mask = maskOf(settings, first, queries, keys);
      attention.mask = &mask;
    }
    const auto one = attentionReference(
        part(q, first, queries), contents(kCache, settings.kScale, table, range, keys, arithmetic),
        contents(vCache, settings.vScale, table, range, keys, arithmetic), attention, arithmetic);
    put(result.o, false, first, one.o);
    put(result.lse, false, first, reshaped(one.lse, {1, heads, queries, 1}));
  }
  result.lse.shape = {tokens, heads};
  return result;
}
