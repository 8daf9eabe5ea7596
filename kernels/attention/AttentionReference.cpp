// Attention and its gradients on the host.
#include "kernels/attention/ReferenceRows.h"

using namespace sectile;

std::uint32_t sectile::weightThreshold(double probability) {
  return static_cast<std::uint32_t>(std::min(std::round(probability * 65536), 65535.0)) << 16;
}

std::vector<double> sectile::rowOf(const HostArray &array, std::int64_t row) {
  return with_type(array.dtype, [&](auto zero) {
    const std::size_t width = at(array.shape.back());
    std::vector<double> values;
    for (const auto value : array.as<decltype(zero)>().subspan(at(row) * width, width))
      values.push_back(static_cast<double>(value));
    return values;
  });
}

std::vector<double> ReferenceLayout::keyRow(const HostArray &array, std::int64_t s, std::int64_t h,
                                            std::int64_t j) const {
  return readKey ? readKey(array, s, h, j) : rowOf(array, key.of(s, h, j));
}

ReferenceLayout sectile::denseLayout(const HostArray &q, const HostArray &k, const HostArray &v) {
  const std::int64_t batches = q.shape[0], heads = q.shape[1], queries = q.shape[2],
                     kvHeads = k.shape[1], keys = k.shape[2];
  ReferenceLayout layout{.heads = heads,
                         .kvHeads = kvHeads,
                         .valueWidth = v.shape.back(),
                         .logs = {batches, heads, queries}};
  layout.query = {{}, queries, 1};
  layout.key = {{}, keys, 1};
  for (std::int64_t b = 0; b < batches; ++b) {
    layout.queries.push_back(queries);
    layout.keys.push_back(keys);
    layout.query.first.push_back(b * heads * queries);
    layout.key.first.push_back(b * kvHeads * keys);
  }
  layout.logarithm = layout.query;
  return layout;
}

ReferenceLayout sectile::packedLayout(const HostArray &q, const HostArray &k, const HostArray &v,
                                      const HostArray &queryStarts, const HostArray &keyStarts) {
  const auto queryStart = queryStarts.as<std::int32_t>(), keyStart = keyStarts.as<std::int32_t>();
  const std::int64_t tokens = q.shape[0], heads = q.shape[1], kvHeads = k.shape[1];
  ReferenceLayout layout{
      .heads = heads, .kvHeads = kvHeads, .valueWidth = v.shape.back(), .logs = {heads, tokens}};
  layout.query = {{}, 1, heads};
  layout.logarithm = {{}, tokens, 1};
  layout.key = {{}, 1, kvHeads};
  for (std::size_t s = 0; s + 1 < queryStart.size(); ++s) {
    const std::int64_t query = queryStart[s], key = keyStart[s];
    layout.queries.push_back(queryStart[s + 1] - query);
    layout.keys.push_back(keyStart[s + 1] - key);
    layout.firstQuery.push_back(query);
    layout.query.first.push_back(query * heads);
    layout.logarithm.first.push_back(query);
    layout.key.first.push_back(key * kvHeads);
  }
  return layout;
}

AttentionResult sectile::attentionReference(const ReferenceLayout &layout, const HostArray &q,
                                            const HostArray &k, const HostArray &v,
                                            const AttentionSettings &settings,
                                            Arithmetic arithmetic) {
  return with_arithmetic(q.dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const ReferenceProblem problem{numbers, layout, settings, q, k, v};
    return weightedValues(problem, [&](const ReferenceQuery &of, std::vector<Number> &p) {
      const auto sinks = problem.sinksOf(of.head);
      Number largest = -problem.infinity, sum = 0;
      for (Number score : p)
        largest = largerOrNan(largest, score);
      for (Number sink : sinks)
        largest = largerOrNan(largest, sink);
      if (largest == -problem.infinity)
        return largest;
      for (Number &score : p)
        sum += score = std::exp(numbers.store(score - largest));
      for (Number sink : sinks)
        sum += std::exp(numbers.store(sink - largest));
      for (std::size_t j = 0; j < p.size(); ++j)
        p[j] = p[j] / sum * problem.kept(of, static_cast<std::int64_t>(j));
      return largest + std::log(sum);
    });
  });
}

AttentionReferenceGradients
sectile::attentionBackwardReference(const ReferenceLayout &layout, const HostArray &q,
                                    const HostArray &k, const HostArray &v, const HostArray &o,
                                    const HostArray &lse, const HostArray &dO,
                                    const AttentionSettings &settings, Arithmetic arithmetic) {
  return with_arithmetic(q.dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    using Numbers = std::vector<Number>;
    const ReferenceProblem problem{numbers, layout, settings, q, k, v};
    const Numbers logs = numbers.load(lse);
    Numbers deltas(logs.size());
    const auto slopesOf = [&](const ReferenceQuery &of, const Numbers &scores, Numbers &weights,
                              Numbers &ds) {
      const auto &[s, head, i] = of;
      const std::size_t row = at(layout.logarithm.of(s, head, i));
      const auto out = rowOf(o, layout.query.of(s, head, i)),
                 dOut = rowOf(dO, layout.query.of(s, head, i));
      Number &delta = deltas[row];
      for (std::size_t d = 0; d < out.size(); ++d)
        delta += static_cast<Number>(out[d]) * static_cast<Number>(dOut[d]);
      if (logs[row] == -problem.infinity) // nothing was attended
        return false;
      for (std::size_t j = 0; j < ds.size(); ++j) {
        const Number p = std::exp(numbers.store(scores[j] - logs[row])),
                     kept = problem.kept(of, static_cast<std::int64_t>(j));
        weights[j] = p * kept;
        ds[j] =
            numbers.store(numbers.store(p) * (numbers.store(numbers.store(ds[j]) * kept) - delta));
      }
      return true;
    };
    const auto found = scoreGradients(problem, dO, settings.bias != nullptr, slopesOf);

    const auto packed = [&](const HostArray &like, const Numbers &values) {
      return numbers.pack(numbers.result, like.shape, values);
    };
    AttentionReferenceGradients result{packed(q, found.dq[0]), packed(k, found.dk[0]),
                                       packed(v, found.dv)};
    if (settings.farKeys) {
      result.dFarQueries = packed(q, found.dq[1]);
      result.dFarKeys = packed(k, found.dk[1]);
    }
    Numbers dbias(problem.bias.size()), dsinks(problem.sinks.size());
    for (std::int64_t s = 0; s < layout.count(); ++s)
      for (std::int64_t head = 0; head < layout.heads; ++head)
        for (std::int64_t i = 0; i < layout.queries[at(s)]; ++i) {
          const std::int64_t group = layout.heads / layout.kvHeads, keys = layout.keys[at(s)];
          const std::size_t row = at(layout.logarithm.of(s, head, i));
          for (std::int64_t j = 0; settings.bias && j < keys; ++j)
            dbias[problem.place(*settings.bias, {s, head, i}, j)] +=
                found.ofScores[at(s * layout.kvHeads + head / group)]
                              [at((head % group * layout.queries[at(s)] + i) * keys + j)];
          const auto sinks = problem.sinksOf(head);
          for (std::size_t r = 0; r < sinks.size() && logs[row] != -problem.infinity; ++r)
            dsinks[at(sinks.data() - problem.sinks.data()) + r] -=
                std::exp(sinks[r] - logs[row]) * deltas[row];
        }
    if (settings.bias)
      result.dbias = packed(*settings.bias, dbias);
    if (settings.sinks)
      result.dsinks = numbers.pack(numbers.statistics, settings.sinks->shape, dsinks);
    return result;
  });
}

AttentionResult sectile::attentionReference(const HostArray &q, const HostArray &k,
                                            const HostArray &v, const AttentionSettings &settings,
                                            Arithmetic arithmetic) {
  return attentionReference(denseLayout(q, k, v), q, k, v, settings, arithmetic);
}

// Of a call with the arguments of attention, or of attention_varlen.
static ReferenceLayout layoutOf(const Invocation &call, std::span<const HostArray> in) {
  return call.extents.contains("Tq") ? packedLayout(in[0], in[1], in[2], in[3], in[4])
                                     : denseLayout(in[0], in[1], in[2]);
}

decltype(KernelSpec::reference) sectile::forwardReference(AttentionSettingsOf settings) {
  return [=](const Invocation &call, std::span<const HostArray> in, Arithmetic arithmetic) {
    auto result =
        attentionReference(layoutOf(call, in), in[0], in[1], in[2], settings(call, in), arithmetic);
    return std::vector{result.o, result.lse};
  };
}

decltype(KernelSpec::reference) sectile::backwardReference(AttentionSettingsOf settings) {
  return [=](const Invocation &call, std::span<const HostArray> in, Arithmetic arithmetic) {
    auto of = [&](const char *name) -> const HostArray & { return in[call.index(name)]; };
    auto result = attentionBackwardReference(layoutOf(call, in), in[0], in[1], in[2], of("o"),
                                             of("lse"), of("do"), settings(call, in), arithmetic);
    std::vector gradients{result.dq, result.dk, result.dv, result.dbias, result.dsinks};
    gradients.resize(call.kernel->arguments.size() - in.size()); // not all have the last two
    return gradients;
  };
}
