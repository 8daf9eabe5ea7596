// Attention on the host.
#include "kernels/Parallel.h"
#include "kernels/ReferenceArithmetic.h"
#include <cmath>
#include <limits>

using namespace sectile;

AttentionResult sectile::attentionReference(const HostArray &q, const HostArray &k,
                                            const HostArray &v, const AttentionOptions &options,
                                            Arithmetic arithmetic) {
  const std::int64_t heads = q.shape[1], queries = q.shape[2], width = q.shape[3];
  const std::int64_t kvHeads = k.shape[1], keys = k.shape[2];
  const std::int64_t batchHeads = q.shape[0] * heads;
  return withArithmetic(q.dtype, arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    constexpr Number infinity = std::numeric_limits<Number>::infinity();
    const auto scale =
        static_cast<Number>(options.scale.value_or(1 / std::sqrt(static_cast<double>(width))));
    const auto qs = numbers.load(q), ks = numbers.load(k), vs = numbers.load(v);
    std::vector<Number> output(qs.size()), logs(static_cast<std::size_t>(batchHeads * queries));

    // k transposed within each head, so that a row of scores is computed along memory.
    std::vector<Number> kt(ks.size());
    parallelFor(q.shape[0] * kvHeads, [&](std::int64_t head) {
      const Number *from = ks.data() + head * keys * width;
      Number *to = kt.data() + head * keys * width;
      for (std::int64_t j = 0; j < keys; ++j)
        for (std::int64_t d = 0; d < width; ++d)
          to[d * keys + j] = from[j * width + d];
    });

    parallelFor(batchHeads * queries, [&](std::int64_t row) {
      const std::int64_t head = row / queries, i = row % queries;
      const std::int64_t kvHead = head / heads * kvHeads + head % heads / (heads / kvHeads);
      const std::int64_t visible =
          options.causal ? std::clamp<std::int64_t>(i + keys - queries + 1, 0, keys) : keys;
      const Number *query = qs.data() + row * width;
      std::vector<Number> p(static_cast<std::size_t>(visible));
      for (std::int64_t d = 0; d < width; ++d) {
        const Number *line = kt.data() + (kvHead * width + d) * keys;
        for (std::int64_t j = 0; j < visible; ++j)
          p[static_cast<std::size_t>(j)] += query[d] * line[j];
      }
      Number largest = -infinity, sum = 0;
      bool nan = false;
      for (Number &score : p) {
        score = numbers.store(numbers.store(score) * scale);
        largest = std::max(largest, score);
        nan |= std::isnan(score);
      }
      Number *out = output.data() + row * width;
      Number &log = logs[static_cast<std::size_t>(row)];
      if (largest == -infinity && !nan) { // nothing to attend
        log = -infinity;
        return;
      }
      for (Number &score : p)
        sum += score = std::exp(numbers.store(score - largest));
      log = largest + std::log(sum);
      for (std::int64_t j = 0; j < visible; ++j) {
        const Number weight = numbers.store(p[static_cast<std::size_t>(j)] / sum);
        const Number *value = vs.data() + (kvHead * keys + j) * width;
        for (std::int64_t d = 0; d < width; ++d)
          out[d] += weight * value[d];
      }
    });
    return AttentionResult{numbers.pack(numbers.result, q.shape, output),
                           numbers.pack(numbers.statistics, {q.shape[0], heads, queries}, logs)};
  });
}
