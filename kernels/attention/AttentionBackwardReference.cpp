// The gradients of attention on the host, from what the forward pass left.
#include "kernels/attention/ReferenceScores.h"
#include "kernels/attention/References.h"
#include <array>

using namespace sectile;

AttentionReferenceGradients
sectile::attentionBackwardReference(const HostArray &q, const HostArray &k, const HostArray &v,
                                    const HostArray &o, const HostArray &lse, const HostArray &dO,
                                    const AttentionSettings &settings, std::int64_t batch,
                                    Arithmetic arithmetic) {
  return with_arithmetic(q.dtype, arithmetic, [&](auto numbers) {
    using Scores = ReferenceScores<decltype(numbers)>;
    using Number = typename Scores::Number;
    using Numbers = std::vector<Number>;
    const Scores scores(numbers, q, k, settings, batch);
    const std::int64_t heads = scores.heads, queries = scores.queries, keys = scores.keys,
                       width = scores.width, valueWidth = v.shape[3];
    const std::int64_t rows = scores.batches * heads * queries;
    const auto vs = scores.operands(v), dOs = scores.operands(dO);
    const auto outputs = numbers.load(o), logs = numbers.load(lse), dOutputs = numbers.load(dO);
    std::array<Numbers, 2> dq, dk; // of the operands, and of those of far pairs
    for (std::size_t set = 0; set < scores.operandSets.size(); ++set) {
      dq[set].resize(scores.operandSets[set].q.size());
      dk[set].resize(scores.operandSets[set].k.size());
    }
    Numbers dv(vs.size()), deltas(static_cast<std::size_t>(rows));
    Numbers slopes(settings.bias ? static_cast<std::size_t>(rows * keys) : 0); // of whole scores

    parallelFor(scores.batches * scores.kvHeads, [&](std::int64_t kvHead) {
      const std::int64_t group = heads / scores.kvHeads;
      Numbers s, inner;
      for (std::int64_t member = 0; member < group; ++member) {
        const std::int64_t head = kvHead * group + member;
        for (std::int64_t i = 0; i < queries; ++i) {
          const std::int64_t row = head * queries + i;
          const Number *out = outputs.data() + row * valueWidth,
                       *dOut = dOutputs.data() + row * valueWidth,
                       *operand = dOs.data() + row * valueWidth;
          Number &delta = deltas[static_cast<std::size_t>(row)];
          for (std::int64_t d = 0; d < valueWidth; ++d)
            delta += out[d] * dOut[d];
          const Number log = logs[static_cast<std::size_t>(row)];
          if (log == -Scores::infinity) // nothing was attended
            continue;
          scores.row(head, i, s, &inner);
          for (std::int64_t j = 0; j < keys; ++j) {
            const Number score = s[static_cast<std::size_t>(j)];
            if (score == -Scores::infinity)
              continue;
            const Number p = std::exp(numbers.store(score - log)), kept = scores.kept(head, i, j);
            const std::int64_t key = kvHead * keys + j;
            const Number *value = vs.data() + key * valueWidth;
            // Against delta's order: where a row sees one key the two are one sum, and in one order
            // their rounding errors would cancel, which no kernel that has delta from a pass of its
            // own meets.
            Number dp = 0;
            for (std::int64_t d = valueWidth; d-- > 0;)
              dp += operand[d] * value[d];
            dp = numbers.store(numbers.store(dp) * kept);
            const Number weight = scores.operand(numbers.store(p * kept));
            for (std::int64_t d = 0; d < valueWidth; ++d)
              dv[static_cast<std::size_t>(key * valueWidth + d)] += weight * operand[d];
            const Number ds = numbers.store(numbers.store(p) * (dp - delta));
            if (settings.bias)
              slopes[static_cast<std::size_t>(row * keys + j)] = ds;
            const Number dx =
                scores.operand(numbers.store(ds * inner[static_cast<std::size_t>(j)]));
            const std::size_t set = scores.setOf(i, j);
            const auto &own = scores.operandSets[set];
            for (std::int64_t d = 0; d < width; ++d) {
              const auto ofQuery = static_cast<std::size_t>(row * width + d),
                         ofKey = static_cast<std::size_t>(key * width + d);
              dq[set][ofQuery] += dx * own.k[ofKey];
              dk[set][ofKey] += dx * own.q[ofQuery];
            }
          }
        }
      }
    });
    for (Numbers *scaled : {&dq[0], &dq[1], &dk[0], &dk[1]})
      for (Number &value : *scaled)
        value *= scores.scale;

    AttentionReferenceGradients result{numbers.pack(numbers.result, q.shape, dq[0]),
                                       numbers.pack(numbers.result, k.shape, dk[0]),
                                       numbers.pack(numbers.result, v.shape, dv)};
    if (settings.farKeys) {
      result.dFarQueries = numbers.pack(numbers.result, q.shape, dq[1]);
      result.dFarKeys = numbers.pack(numbers.result, k.shape, dk[1]);
    }
    if (settings.bias) {
      Numbers sums(static_cast<std::size_t>(settings.bias->count()));
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t j = 0; j < keys; ++j)
          sums[scores.place(*settings.bias, row / queries, row % queries, j)] +=
              slopes[static_cast<std::size_t>(row * keys + j)];
      result.dbias = numbers.pack(numbers.result, settings.bias->shape, sums);
    }
    if (settings.sinks) {
      const bool one = settings.sinks->shape[0] == 1;
      Numbers sums(static_cast<std::size_t>(settings.sinks->count()));
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t r = 0; r < scores.sinkCount; ++r) {
          const std::int64_t head = row / queries % heads, at = head * scores.sinkCount + r;
          const Number log = logs[static_cast<std::size_t>(row)];
          if (log != -Scores::infinity)
            sums[static_cast<std::size_t>(one ? r : at)] -=
                std::exp(scores.sinks[static_cast<std::size_t>(at)] - log) *
                deltas[static_cast<std::size_t>(row)];
        }
      result.dsinks = numbers.pack(numbers.statistics, settings.sinks->shape, sums);
    }
    return result;
  });
}

decltype(KernelSpec::reference) sectile::backwardReference(AttentionSettingsOf settings) {
  return [=](const Invocation &call, std::span<const HostArray> in, Arithmetic arithmetic) {
    auto of = [&](const char *name) { return in[call.index(name)]; };
    auto result = attentionBackwardReference(of("q"), of("k"), of("v"), of("o"), of("lse"),
                                             of("do"), settings(call, in), 0, arithmetic);
    std::vector gradients{result.dq, result.dk, result.dv, result.dbias, result.dsinks};
    gradients.resize(call.kernel->arguments.size() - in.size()); // not all have the last two
    return gradients;
  };
}
