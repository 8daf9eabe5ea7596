// Attention over packed sequences on the host: each sequence by itself.
#include "kernels/attention/PackedReference.h"
#include "kernels/attention/References.h"

using namespace sectile;
using namespace sectile::packed;

namespace {

// The sequences in arrays of whose axes one counts the elements of all sequences.
class Packed {
public:
  Packed(const HostArray &queryStarts, const HostArray &keyStarts)
      : queryStarts(queryStarts.as<std::int32_t>()), keyStarts(keyStarts.as<std::int32_t>()) {}

  std::int64_t count() const { return static_cast<std::int64_t>(queryStarts.size()) - 1; }
  std::int64_t firstQuery(std::int64_t s) const { return queryStarts[static_cast<std::size_t>(s)]; }
  std::int64_t firstKey(std::int64_t s) const { return keyStarts[static_cast<std::size_t>(s)]; }
  std::int64_t queries(std::int64_t s) const { return firstQuery(s + 1) - firstQuery(s); }
  std::int64_t keys(std::int64_t s) const { return firstKey(s + 1) - firstKey(s); }

private:
  std::span<const std::int32_t> queryStarts, keyStarts;
};

// One sequence's settings, with its part of bias and mask.
struct SequenceSettings {
  AttentionSettings settings;
  HostArray bias, mask;

  SequenceSettings(const AttentionSettings &all, const Packed &sequences, std::int64_t s)
      : settings(all) {
    auto cut = [&](const HostArray *&from, HostArray &own) {
      if (from)
        own = part(*from, true, sequences.firstQuery(s), sequences.queries(s), sequences.keys(s));
      if (from)
        from = &own;
    };
    cut(settings.bias, bias);
    cut(settings.mask, mask);
  }
};

} // namespace

AttentionResult sectile::attentionVarlenReference(const HostArray &q, const HostArray &k,
                                                  const HostArray &v, const HostArray &queryStarts,
                                                  const HostArray &keyStarts,
                                                  const AttentionSettings &settings,
                                                  Arithmetic arithmetic) {
  const Packed sequences(queryStarts, keyStarts);
  const std::int64_t queries = q.shape[0], heads = q.shape[1];
  AttentionResult result{HostArray(resultOf(q, arithmetic), {queries, heads, v.shape[2]}),
                         HostArray(statisticsOf(arithmetic), {heads, queries, 1})};
  for (std::int64_t s = 0; s < sequences.count(); ++s) {
    const SequenceSettings own(settings, sequences, s);
    const auto one = attentionReference(part(q, sequences.firstQuery(s), sequences.queries(s)),
                                        part(k, sequences.firstKey(s), sequences.keys(s)),
                                        part(v, sequences.firstKey(s), sequences.keys(s)),
                                        own.settings, s, arithmetic);
    put(result.o, false, sequences.firstQuery(s), one.o);
    put(result.lse, true, sequences.firstQuery(s),
        reshaped(one.lse, {1, heads, sequences.queries(s), 1}));
  }
  result.lse.shape = {heads, queries};
  return result;
}

AttentionReferenceGradients sectile::attentionVarlenBackwardReference(
    const HostArray &q, const HostArray &k, const HostArray &v, const HostArray &queryStarts,
    const HostArray &keyStarts, const HostArray &o, const HostArray &lse, const HostArray &dO,
    const AttentionSettings &settings, Arithmetic arithmetic) {
  const Packed sequences(queryStarts, keyStarts);
  const DType type = resultOf(q, arithmetic);
  const std::int64_t heads = q.shape[1];
  AttentionReferenceGradients result{
      HostArray(type, q.shape), HostArray(type, k.shape), HostArray(type, v.shape), {}, {}};
  if (settings.bias)
    result.dbias = HostArray(type, settings.bias->shape);
  std::vector<double> sinks(settings.sinks ? static_cast<std::size_t>(settings.sinks->count()) : 0);
  const HostArray logs = reshaped(lse, {heads, q.shape[0], 1});
  for (std::int64_t s = 0; s < sequences.count(); ++s) {
    const SequenceSettings own(settings, sequences, s);
    const std::int64_t firstQuery = sequences.firstQuery(s), queries = sequences.queries(s),
                       firstKey = sequences.firstKey(s), keys = sequences.keys(s);
    const auto one = attentionBackwardReference(
        part(q, firstQuery, queries), part(k, firstKey, keys), part(v, firstKey, keys),
        part(o, firstQuery, queries),
        reshaped(part(logs, true, firstQuery, queries, 1), {1, heads, queries}),
        part(dO, firstQuery, queries), own.settings, s, arithmetic);
    put(result.dq, false, firstQuery, one.dq);
    put(result.dk, false, firstKey, one.dk);
    put(result.dv, false, firstKey, one.dv);
    if (settings.bias)
      put(result.dbias, true, firstQuery, one.dbias);
    const auto sinkSlopes = one.dsinks.to_double();
    for (std::size_t i = 0; i < sinks.size(); ++i)
      sinks[i] += sinkSlopes[i];
  }
  if (settings.sinks)
    result.dsinks = HostArray(statisticsOf(arithmetic), settings.sinks->shape, sinks);
  return result;
}
