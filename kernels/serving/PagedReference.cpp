// Attention over pages on the host.
#include "kernels/Parallel.h"
#include "kernels/ReferenceArithmetic.h"
#include "kernels/serving/References.h"
#include <cmath>
#include <limits>

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

} // namespace

AttentionResult sectile::pagedReference(const HostArray &q, const HostArray &kCache,
                                        const HostArray &vCache, const HostArray &lengths,
                                        const HostArray &tables, const PagedSettings &settings,
                                        Arithmetic arithmetic) {
  const std::int64_t tokens = q.shape[0], heads = q.shape[1], width = q.shape[2];
  const std::int64_t kvHeads = kCache.shape[1], page = kCache.shape[2];
  const std::int64_t sequences = lengths.shape[0], maxPages = tables.shape[1];
  const auto length = lengths.as<std::int32_t>(), table = tables.as<std::int32_t>();
  return withArithmetic(q.dtype, arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    constexpr Number infinity = std::numeric_limits<Number>::infinity();
    const auto qs = numbers.load(q), ks = contents(numbers, kCache, settings.kScale),
               vs = contents(numbers, vCache, settings.vScale);
    const auto sinks = settings.sinks ? numbers.load(*settings.sinks) : std::vector<Number>();
    std::vector<Number> output(qs.size()), logs(static_cast<std::size_t>(tokens * heads));

    parallelFor(sequences * heads, [&](std::int64_t work) {
      const std::int64_t s = work / heads, head = work % heads;
      const auto at = static_cast<std::size_t>(s);
      const std::int64_t begin = settings.cu ? settings.cu->as<std::int32_t>()[at] : s;
      const std::int64_t end = settings.cu ? settings.cu->as<std::int32_t>()[at + 1] : s + 1;
      const std::int64_t keys = length[at], offset = keys - (end - begin);
      auto place = [&](std::int64_t j) { // of a key's numbers
        const std::int64_t block = table[static_cast<std::size_t>(s * maxPages + j / page)];
        return ((block * kvHeads + head / (heads / kvHeads)) * page + j % page) * width;
      };
      std::vector<Number> p;
      for (std::int64_t token = begin; token < end; ++token) {
        const std::int64_t i = token - begin, row = token * heads + head;
        const std::int64_t first =
            settings.left < 0 ? 0 : std::max<std::int64_t>(0, i + offset - settings.left);
        const std::int64_t last =
            settings.causal ? std::clamp<std::int64_t>(i + offset + 1, 0, keys) : keys;
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
          largest = std::max(largest, score);
        }
        const auto perHead = settings.sinks ? settings.sinks->shape[1] : 0;
        const auto own = std::span(sinks).subspan(settings.sinks && settings.sinks->shape[0] != 1
                                                      ? static_cast<std::size_t>(head * perHead)
                                                      : 0,
                                                  static_cast<std::size_t>(perHead));
        for (Number sink : own)
          largest = std::max(largest, sink);
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
