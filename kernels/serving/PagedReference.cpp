// Attention over pages on the host.
#include "kernels/Parallel.h"
#include "kernels/ReferenceArithmetic.h"
#include "kernels/Registry.h"
#include "kernels/serving/References.h"
#include <cmath>
#include <limits>
#include <sectile/error.h>

using namespace sectile;

namespace {

// A cache's numbers, dense: [blocks, Hkv, page, D].
template <class Numbers>
auto contents(const Numbers &numbers, const HostArray &cache, const HostArray *scale) {
  using Number = typename Numbers::Number;
  std::vector<Number> values = numbers.load(cache);
  if (cache.dtype == DType::uint8) {
    auto number = [](int nibble) { return static_cast<Number>(nibble < 8 ? nibble : nibble - 16); };
    std::vector<Number> both;
    both.reserve(2 * values.size());
    for (std::uint8_t pair : cache.as<std::uint8_t>()) {
      both.push_back(number(pair % 16));
      both.push_back(number(pair / 16));
    }
    values = std::move(both);
  }
  if (!scale || values.empty())
    return values;
  const std::vector<Number> scales = numbers.load(*scale);
  const std::size_t heads = static_cast<std::size_t>(cache.shape[1]),
                    perHead = values.size() / heads / static_cast<std::size_t>(cache.shape[0]);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t head = i / perHead; // of blocks * Hkv
    values[i] = numbers.store(values[i] * scales[scale->shape[0] == 1 ? head % heads : head]);
  }
  return values;
}

// Keys that query i of n of a sequence sees.
struct Range {
  std::int64_t first, last;
};
Range seen(const PagedSettings &settings, std::int64_t i, std::int64_t n, std::int64_t keys) {
  const std::int64_t offset = keys - n;
  return {settings.left < 0 || settings.left > i + offset ? 0 : i + offset - settings.left,
          settings.causal ? std::clamp<std::int64_t>(i + offset + 1, 0, keys) : keys};
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
      throw InputError(call.kernel->name + ": context_lens[" + std::to_string(s) + "] is " +
                       std::to_string(keys) + ", but must be from 0 to " +
                       std::to_string(maxPages * page) +
                       ", the keys that a row of block_tables has room for");
    std::int64_t queries = 1;
    if (settings.cu) {
      const auto bounds = settings.cu->as<std::int32_t>();
      queries = bounds[static_cast<std::size_t>(s + 1)] - bounds[static_cast<std::size_t>(s)];
    }
    if (queries == 0)
      continue;
    const std::int64_t last = seen(settings, queries - 1, queries, keys).last;
    for (std::int64_t p = seen(settings, 0, queries, keys).first / page; p * page < last; ++p)
      if (const std::int64_t block = table[static_cast<std::size_t>(s * maxPages + p)];
          block < 0 || block >= blocks)
        throw InputError(call.kernel->name + ": block_tables[" + std::to_string(s) + ", " +
                         std::to_string(p) + "] is " + std::to_string(block) + ", but there are " +
                         std::to_string(blocks) + " blocks");
  }
}

AttentionResult sectile::pagedReference(const HostArray &q, const HostArray &kCache,
                                        const HostArray &vCache, const HostArray &lengths,
                                        const HostArray &tables, const PagedSettings &settings,
                                        Arithmetic arithmetic) {
  const std::int64_t tokens = q.shape[0], heads = q.shape[1], width = q.shape[2];
  const std::int64_t kvHeads = kCache.shape[1], page = kCache.shape[2];
  const std::int64_t sequences = lengths.shape[0], maxPages = tables.shape[1];
  const auto length = lengths.as<std::int32_t>(), table = tables.as<std::int32_t>();
  auto boundary = [&](std::int64_t s) -> std::int64_t {
    return settings.cu ? settings.cu->as<std::int32_t>()[static_cast<std::size_t>(s)] : s;
  };

  return with_arithmetic(q.dtype, arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    constexpr Number infinity = std::numeric_limits<Number>::infinity();
    const auto qs = numbers.load(q), ks = contents(numbers, kCache, settings.kScale),
               vs = contents(numbers, vCache, settings.vScale);
    const auto sinks = settings.sinks ? numbers.load(*settings.sinks) : std::vector<Number>();
    std::vector<Number> output(qs.size()), logs(static_cast<std::size_t>(tokens * heads));

    parallelFor(sequences * heads, [&](std::int64_t work) {
      const std::int64_t s = work / heads, head = work % heads;
      const auto at = static_cast<std::size_t>(s);
      const std::int64_t begin = boundary(s), end = boundary(s + 1), keys = length[at];
      auto place = [&](std::int64_t j) { // of a key's numbers
        const std::int64_t block = table[static_cast<std::size_t>(s * maxPages + j / page)];
        return ((block * kvHeads + head / (heads / kvHeads)) * page + j % page) * width;
      };
      std::vector<Number> p;
      for (std::int64_t token = begin; token < end; ++token) {
        const std::int64_t i = token - begin, row = token * heads + head;
        const auto [first, last] = seen(settings, i, end - begin, keys);
        Number largest = -infinity, sum = 0;
        p.clear();
        for (std::int64_t j = first; j < last; ++j) {
          Number score = 0;
          for (std::int64_t d = 0; d < width; ++d)
            score += qs[static_cast<std::size_t>(row * width + d)] *
                     ks[static_cast<std::size_t>(place(j) + d)];
          score = numbers.store(numbers.store(score) * static_cast<Number>(settings.scale));
          if (settings.cap > 0) {
            const auto cap = static_cast<Number>(settings.cap);
            score = numbers.store(cap * numbers.store(std::tanh(score / cap)));
          }
          p.push_back(score);
          largest = largerOrNan(largest, score);
        }
        const auto perHead = settings.sinks ? settings.sinks->shape[1] : 0;
        const auto own = std::span(sinks).subspan(settings.sinks && settings.sinks->shape[0] != 1
                                                      ? static_cast<std::size_t>(head * perHead)
                                                      : 0,
                                                  static_cast<std::size_t>(perHead));
        for (Number sink : own)
          largest = largerOrNan(largest, sink);
        Number &log = logs[static_cast<std::size_t>(row)];
        if (largest == -infinity) {
          log = -infinity;
          continue;
        }
        for (Number &score : p)
          sum += score = std::exp(numbers.store(score - largest));
        for (Number sink : own)
          sum += std::exp(sink - largest);
        log = largest + std::log(sum);
        for (std::int64_t j = first; j < last; ++j) {
          const Number weight = numbers.store(p[static_cast<std::size_t>(j - first)] / sum);
          for (std::int64_t d = 0; d < width; ++d)
            output[static_cast<std::size_t>(row * width + d)] +=
                weight * vs[static_cast<std::size_t>(place(j) + d)];
        }
      }
    });
    return AttentionResult{numbers.pack(numbers.result, q.shape, output),
                           numbers.pack(numbers.statistics, {tokens, heads}, logs)};
  });
}
