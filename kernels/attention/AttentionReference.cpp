// Attention on the host.
#include "kernels/attention/ReferenceScores.h"
#include "kernels/attention/References.h"

using namespace sectile;

std::uint32_t sectile::dropoutThreshold(double probability) {
  return static_cast<std::uint32_t>(std::min(probability * 4294967296.0, 4294967295.0));
}

std::uint32_t sectile::weightThreshold(double probability) {
  return static_cast<std::uint32_t>(std::min(std::round(probability * 65536), 65535.0)) << 16;
}

AttentionResult sectile::attentionReference(const HostArray &q, const HostArray &k,
                                            const HostArray &v, const AttentionSettings &settings,
                                            std::int64_t batch, Arithmetic arithmetic) {
  return with_arithmetic(q.dtype, arithmetic, [&](auto numbers) {
    using Scores = ReferenceScores<decltype(numbers)>;
    using Number = typename Scores::Number;
    const Scores scores(numbers, q, k, settings, batch);
    const std::int64_t queries = scores.queries, keys = scores.keys, width = v.shape[3];
    const std::int64_t rows = scores.batches * scores.heads * queries;
    const auto vs = scores.operands(v);
    std::vector<Number> output(static_cast<std::size_t>(rows * width)),
        logs(static_cast<std::size_t>(rows));

    parallelFor(rows, [&](std::int64_t row) {
      const std::int64_t head = row / queries, i = row % queries;
      std::vector<Number> p;
      scores.row(head, i, p);
      const std::int64_t first = head % scores.heads * scores.sinkCount;
      const std::span sinks(scores.sinks.data() + first,
                            static_cast<std::size_t>(scores.sinkCount));
      Number largest = -Scores::infinity, sum = 0;
      for (Number score : p)
        largest = largerOrNan(largest, score);
      for (Number sink : sinks)
        largest = largerOrNan(largest, sink);
      Number *out = output.data() + row * width;
      Number &log = logs[static_cast<std::size_t>(row)];
      if (largest == -Scores::infinity) { // nothing to attend
        log = -Scores::infinity;
        return;
      }
      for (Number &score : p)
        sum += score = std::exp(numbers.store(score - largest));
      for (Number sink : sinks)
        sum += std::exp(numbers.store(sink - largest));
      log = largest + std::log(sum);
      for (std::int64_t j = 0; j < keys; ++j) {
        if (!scores.sees(head, i, j))
          continue;
        const Number weight = scores.operand(
            numbers.store(p[static_cast<std::size_t>(j)] / sum * scores.kept(head, i, j)));
        const Number *value = vs.data() + (scores.kvHead(head) * keys + j) * width;
        for (std::int64_t d = 0; d < width; ++d)
          out[d] += weight * value[d];
      }
    });
    return AttentionResult{
        numbers.pack(numbers.result, {scores.batches, scores.heads, queries, width}, output),
        numbers.pack(numbers.statistics, {scores.batches, scores.heads, queries}, logs)};
  });
}

AttentionResult sectile::attentionReference(const HostArray &q, const HostArray &k,
                                            const HostArray &v, const AttentionSettings &settings,
                                            Arithmetic arithmetic) {
  return attentionReference(q, k, v, settings, 0, arithmetic);
}

decltype(KernelSpec::reference) sectile::forwardReference(AttentionSettingsOf settings) {
  return [=](const Invocation &call, std::span<const HostArray> in, Arithmetic arithmetic) {
    auto result = attentionReference(in[0], in[1], in[2], settings(call, in), arithmetic);
    return std::vector{result.o, result.lse};
  };
}
