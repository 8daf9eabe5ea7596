// kda and rwkv7: the delta rule with decays by channel of the keys (Kimi Linear, arXiv 2510.26692),
// and RWKV-7 (arXiv 2503.14456), by chunks as in DeltaRule.cpp:
//   S <- diag(e^g) S + b (a^T S) + k v^T, of which KDA is the case a = e^g k, b = -beta k, with
//   beta v for v.
// There is no matrix of decays between steps: e^(G_i - G_j) goes into the rows that are multiplied,
// in part with step i, in part with step j. No part may be above 1, or strong decays overflow. So
// pairs of steps are taken by the power of two at which they part: of blocks of twice that many
// steps the later half meets the earlier one, each decayed from or to the end of the latter. Every
// decay is then one over the steps in between (ChannelDecays). K beyond 256 is refused. A NaN or an
// infinity of a step may reach the earlier steps of its chunk.
#include "kernels/recurrent/DeltaChannels.h"
#include "kernels/recurrent/Family.h"
#include <optional>

using namespace sectile;
using namespace sectile::delta;

namespace {

// Of each chunk what the states and outputs need of it, decays included: `rows` in these places,
// what its steps add without a state (`values` [B, T, Hv, V]), how much of the state before it
// remains after it (`whole`), and `scores` of queries on what steps add, and then on v.
template <class T>
Kernel channelChunks{
    "delta_rule_chunks",
    [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<const T, 4> a,
       View<const T, 4> b, View<const float, 3> beta, View<const float, 4> g,
       View<const std::int32_t, 1> starts, View<T, 4> values, View<T, 5> rows, View<T, 5> scores,
       View<float, 4> inverses, View<float, 3> whole, Float scale, const DeltaConfig &config) {
      // Of rwkv7 what is read and written are arrays of their own.
      const bool isApart = config.corrects && config.direct;
      // 32 numbers a thread, so that rows and decays fit the registers.
      const int chunk = config.chunk, columns = config.columns,
                block = std::min(config.width, 1024 * config.warps / config.chunk);
      const Places places(config);
      auto slot = program_id(0), head = program_id(1);
      withChunk(
          starts, slot, k.extent(1), config, [&](const Sequence &sequence, const Int &number) {
            auto shared = head / (v.extent(2) / k.extent(2));
            const auto leave = [&](int place, const Int &part, const Tile<float> &x) {
              rows.at(place, slot, head).tile(chunk, block).store(0, part, x);
            };
            const auto factorsOf = [&](const View<const T, 4> &x) {
              if (!config.l2norm)
                return full<float>(1, chunk, 1);
              return expand(
                  factors(sequence.rows(x, shared).tile(chunk, config.width).load(number, 0),
                          config),
                  1);
            };
            auto queryFactor = factorsOf(q), keyFactor = factorsOf(k);
            auto strength = strengthsOf(sequence.numbers(beta, head), number, config);
            auto i = expand(arange(0, chunk), 1), j = expand(arange(0, chunk), 0);
            const auto square = zeros<float>(chunk, chunk);

            // Some channels of the chunk, in registers if they are all.
            struct Channels {
              Tile<T> query, key, reader, adder;
              ChannelDecays<T> decays;
            };
            const auto channelsOf = [&](const Int &part) {
              const auto narrow = [&](bool isThere, const View<const T, 4> &x) {
                if (!isThere)
                  return Tile<T>();
                return sequence.rows(x, shared).tile(chunk, block).load(number, part);
              };
              return Channels{
                  .query = narrow(true, q),
                  .key = narrow(true, k),
                  .reader = narrow(isApart, a),
                  .adder = narrow(isApart, b),
                  .decays = ChannelDecays<T>(sequence.rows(g, head), number, part, block, config)};
            };
            std::optional<Channels> all;
            if (config.width <= block)
              all = channelsOf(0);
            const auto forChannels = [&](auto &&body) {
              if (all)
                return body(Int(0), *all);
              for (auto part : range(0, cdiv(k.extent(3), block)))
                body(part, channelsOf(part));
            };

            auto own = square, keyOwn = square;
            forChannels([&](const Int &part, const Channels &x) {
              auto query = cast<float>(x.query) * queryFactor, key = cast<float>(x.key) * keyFactor;
              own = dot(x.query, trans(isApart ? x.adder : x.key), own, Precision::ieee);
              if (isApart)
                keyOwn = dot(x.query, trans(x.key), keyOwn, Precision::ieee);
              auto toEnd = x.decays.after(chunk);
              if (config.corrects)
                leave(places.ofAdded, part, (isApart ? cast<float>(x.adder) : key) * toEnd);
              if (config.direct)
                leave(places.ofValues, part, key * toEnd * expand(strength, 1));
              leave(places.queries, part, query * x.decays.upTo(chunk) * scale);
              whole.at(slot, head).tile(block).store(part, x.decays.whole());
            });
            own *= queryFactor;
            keyOwn *= queryFactor * trans(keyFactor);
            if (!isApart)
              own *= trans(keyFactor);
            // Of steps that part at a lower power of two; above the diagonal for nothing.
            auto pairs = own, triangle = square, ofKeys = square, keyPairs = keyOwn;
            for (int half = 1; half < chunk; half *= 2) {
              auto scored = square, known = square, keysKnown = square, keysScored = square;
              forChannels([&](const Int &, const Channels &x) {
                auto isLate = expand((arange(0, chunk) & half) != 0, 1);
                auto decay = where(isLate, x.decays.upTo(half), x.decays.after(half));
                auto left = cast<float>(x.query) * queryFactor * decay,
                     keys = cast<float>(x.key) * keyFactor * decay, right = keys, from = keys;
                if (isApart) {
                  right = cast<float>(x.adder) * decay;
                  from = cast<float>(x.reader) * where(isLate, x.decays.before(half), 1.0f);
                  keysKnown = common<T>(from, keys, keysKnown);
                  keysScored = common<T>(left, keys, keysScored);
                }
                scored = common<T>(left, right, scored);
                if (config.corrects)
                  known = common<T>(from, right, known);
              });
              auto partBefore = (i ^ j) < half;
              pairs = where(partBefore, pairs, scored);
              triangle = where(partBefore, triangle, known);
              ofKeys = where(partBefore, ofKeys, keysKnown);
              keyPairs = where(partBefore, keyPairs, keysScored);
            }
            pairs = where(i >= j, pairs, 0.0f);
            triangle = where(i > j, triangle, 0.0f);
            ofKeys = where(i > j, ofKeys, 0.0f);
            keyPairs = where(i >= j, keyPairs, 0.0f);
            pairs *= scale;
            keyPairs *= scale;
            if (!config.corrects) {
              scores.at(0, slot, head).tile(chunk, chunk).store(0, 0, pairs * expand(strength, 0));
              return;
            }
            scores.at(0, slot, head).tile(chunk, chunk).store(0, 0, pairs);
            if (isApart)
              scores.at(1, slot, head)
                  .tile(chunk, chunk)
                  .store(0, 0, keyPairs * expand(strength, 0));
            Tile<float> inverse, ofReads, ofNews;
            if (isApart) {
              inverse = Inverse<T>(zeros<float>(chunk, chunk) - triangle, chunk)();
              ofReads = zeros<float>(chunk, chunk) - inverse;
              ofKeys *= expand(strength, 0);
              if (config.backward)
                scores.at(2, slot, head).tile(chunk, chunk).store(0, 0, ofKeys);
              ofNews = ofBlocks<T>(inverse, ofKeys, zeros<float>(chunk, chunk));
            } else {
              inverse = Inverse<T>(triangle * expand(strength, 1), chunk)();
              ofReads = ofNews = inverse * expand(strength, 0);
            }
            if (config.backward)
              inverses.at(slot, head).tile(chunk, chunk).store(0, 0, inverse);
            forChannels([&](const Int &part, const Channels &x) {
              auto reader = isApart ? cast<float>(x.reader) * x.decays.before(chunk)
                                    : cast<float>(x.key) * keyFactor * x.decays.upTo(chunk);
              leave(places.reads, part,
                    withRows(ofReads, cast<T>(reader), zeros<float>(chunk, block)));
            });
            auto from = sequence.rows(v, head).tile(chunk, columns);
            auto to = sequence.rows(values, head).tile(chunk, columns);
            for (auto column : range(0, cdiv(v.extent(3), columns)))
              to.store(number, column,
                       withRows(ofNews, from.load(number, column), zeros<float>(chunk, columns)));
          });
    }};

// From chunk to chunk, with some columns of a state: leaves the state before each chunk, and what
// the chunk's steps add (`added`).
template <class T, class U>
Kernel channelStates{
    "delta_rule_states", [](View<const T, 4> v, View<const std::int32_t, 1> starts,
                            View<const T, 5> rows, View<const T, 4> values, View<T, 4> added,
                            View<const float, 3> whole, View<const float, 4> initial,
                            View<U, 4> kept, View<float, 4> last, const DeltaConfig &config) {
      const int chunk = config.chunk, width = config.width, columns = config.columns;
      auto column = program_id(0), head = program_id(1), one = program_id(2);
      const auto sequence = sequenceOf(starts, one, v.extent(1), config);
      const Places places(config);
      auto news = sequence.rows(values, head).tile(chunk, columns);
      auto given = sequence.rows(v, head).tile(chunk, columns);
      auto state = zeros<float>(width, columns);
      if (config.initial_state)
        state = initial.at(one, head).tile(width, columns).load(0, column);
      for (auto number : range(0, cdiv(sequence.tokens.length, chunk), {.stages = 2})) {
        auto slot = sequence.slot + number;
        const auto rowsIn = [&](int place) {
          return rows.at(place, slot, head).tile(chunk, width).load(0, 0);
        };
        kept.at(slot, head).tile(width, columns).store(0, column, cast<U>(state));
        auto next = state * expand(whole.at(slot, head).tile(width).load(0), 1);
        if (config.corrects) {
          auto fresh =
              cast<T>(cast<float>(news.load(number, column)) -
                      withState(rowsIn(places.reads), state, zeros<float>(chunk, columns)));
          added.at(slot, head).tile(chunk, columns).store(0, column, fresh);
          next = dot(trans(rowsIn(places.ofAdded)), fresh, next, Precision::ieee);
        }
        if (config.direct)
          next = dot(trans(rowsIn(places.ofValues)), given.load(number, column), next,
                     Precision::ieee);
        state = next;
      }
      last.at(one, head).tile(width, columns).store(0, column, state);
    }};

template <class T, class U>
Kernel channelOutputs{
    "delta_rule_outputs",
    [](View<const T, 4> v, View<const std::int32_t, 1> starts, View<const T, 5> rows,
       View<const T, 5> scores, View<const T, 4> added, View<const U, 4> kept,
       View<const float, 1> D, View<const T, 4> z, View<T, 4> o, const DeltaConfig &config) {
      const int chunk = config.chunk, width = config.width, columns = config.columns;
      auto blocks = cdiv(o.extent(3), columns);
      auto slot = program_id(0) / blocks, column = program_id(0) % blocks, head = program_id(1);
      withChunk(
          starts, slot, o.extent(1), config, [&](const Sequence &sequence, const Int &number) {
            auto query = rows.at(Places(config).queries, slot, head).tile(chunk, width).load(0, 0);
            auto state = kept.at(slot, head).tile(width, columns).load(0, column);
            auto result = zeros<float>(chunk, columns);
            if constexpr (std::same_as<T, U>)
              result = dot(query, state, result, Precision::ieee);
            else
              result = dot(cast<float>(query), state, result, statePrecision<T>);
            const auto scoresOn = [&](int which) {
              return scores.at(which, slot, head).tile(chunk, chunk).load(0, 0);
            };
            if (config.corrects)
              result = dot(scoresOn(0), added.at(slot, head).tile(chunk, columns).load(0, column),
                           result, Precision::ieee);
            if (config.direct)
              result = dot(scoresOn(config.corrects ? 1 : 0),
                           sequence.rows(v, head).tile(chunk, columns).load(number, column), result,
                           Precision::ieee);
            storeOutput(sequence, number, head, column, result, v, D, z, o, config);
          });
    }};

} // namespace

template <class T, class U>
ChannelChunks<T>
delta::launchChannelStates(Use &use, const DeltaCall &call, const Tensor<T, 4> &values,
                           const Tensor<T, 4> &added, const Tensor<float, 4> &inverses,
                           const Tensor<U, 4> &kept, const Tensor<float, 4> &last) {
  const std::int64_t slots = call.slots, heads = call.heads, chunk = call.states.chunk;
  const bool corrects = call.states.corrects, isRwkv = corrects && call.states.direct;
  const Places places(call.states);
  const std::int64_t pairs = corrects + call.states.direct + (isRwkv && call.states.backward);
  const ChannelChunks<T> chunks{
      use.workspace<T, 5>({places.count(call.states), slots, heads, chunk, call.k}),
      use.workspace<T, 5>({pairs, slots, heads, chunk, chunk}),
      use.workspace<float, 3>({slots, heads, call.k}), added};
  const auto v = use.tensor<T, 4>("v");

  use(channelChunks<T>, Grid(slots, heads), use.tensor<T, 4>("q"), use.tensor<T, 4>("k"), v,
      isRwkv ? use.tensor<T, 4>("a") : noTensor<T, 4>(),
      isRwkv ? use.tensor<T, 4>("b") : noTensor<T, 4>(), call.beta, call.gk, call.starts, values,
      chunks.rows, chunks.scores, inverses, chunks.whole, call.scale, call.wide);
  use(channelStates<T, U>, Grid(ceilDiv(call.v, call.states.columns), heads, call.count), v,
      call.starts, chunks.rows, values, chunks.added, chunks.whole,
      use.tensor<float, 4>("initial_state"), kept, last, call.states);
  return chunks;
}

template <class T, class U>
void delta::launchChannelOutputs(Use &use, const DeltaCall &call, const ChannelChunks<T> &chunks,
                                 const Tensor<U, 4> &kept, const Tensor<T, 4> &o, bool gated) {
  DeltaConfig config = call.wide;
  config.z = config.z && gated;
  use(channelOutputs<T, U>, Grid(call.slots * ceilDiv(call.v, config.columns), call.heads),
      use.tensor<T, 4>("v"), call.starts, chunks.rows, chunks.scores, chunks.added, kept,
      use.tensor<float, 1>("D"), use.tensor<T, 4>("z"), o, config);
}

#define INSTANTIATE(T, U)                                                                          \
  template ChannelChunks<T> delta::launchChannelStates(                                            \
      Use &, const DeltaCall &, const Tensor<T, 4> &, const Tensor<T, 4> &,                        \
      const Tensor<float, 4> &, const Tensor<U, 4> &, const Tensor<float, 4> &);                   \
  template void delta::launchChannelOutputs(Use &, const DeltaCall &, const ChannelChunks<T> &,    \
                                            const Tensor<U, 4> &, const Tensor<T, 4> &, bool);
INSTANTIATE(half, float)
INSTANTIATE(bfloat16, bfloat16)
INSTANTIATE(bfloat16, float)
INSTANTIATE(float, float)
#undef INSTANTIATE

namespace {

void apply(Use &use) {
  const DeltaCall call(use);
  for_dtype<half, bfloat16, float>(use.call.dtype("q"), [&]<class T>(T) {
    const auto kept = use.workspace<Ranged<T>, 4>({call.slots, call.heads, call.k, call.v});
    const auto o = use.tensor<T, 4>("o");
    auto added = noTensor<T, 4>();
    if (call.states.corrects)
      added = use.workspace<T, 4>({call.slots, call.heads, call.states.chunk, call.v});
    const auto chunks = launchChannelStates(use, call, o, added, noTensor<float, 4>(), kept,
                                            use.tensor<float, 4>("final_state"));
    launchChannelOutputs(use, call, chunks, kept, o, true);
  });
}

Config defaults(const Invocation &call, const std::string &target) {
  const DType dtype = call.tensors[0].dtype;
  const bool isHalf = dtype != DType::float32 && hasMatrixUnits(target, dtype);
  const std::int64_t width = widthOf(call);
  // rwkv7 has twice as many rows of a step, for which the registers do not suffice.
  const bool isRwkv = ruleOf(call) == StateRule::rwkv7;
  const std::int64_t chunk = !isHalf || call.extent("T") <= 16                 ? 16
                             : call.extent("T") <= 32 || width > 128 || isRwkv ? 32
                                                                               : 64;
  std::int64_t dv = width > 128 ? 16 : 32;
  if (chunk == 64)
    dv = stateColumns(call, dtype == DType::bfloat16 ? 128 : 64, target);
  return {{"chunk", chunk},
          {"dv", dv},
          {"warps", chunk < 64 ? 4 : 8},
          {"columns", chunk < 64 ? 32 : 64},
          {"chunk_warps", chunk * width > (isRwkv ? 2048 : 4096) ? 8 : 4}};
}

void completeByChannel(KernelSpec &spec, bool isRwkv) {
  addInputsByChannel(spec, isRwkv);
  spec.add_arguments({{"-> o: [B, T, Hv, V] like q", "of the state after the step"},
                      {"-> final_state: [N, Hv, K, V] f32",
                       "the state after each sequence",
                       {.stored = storedStates}}});
  completeSpec(spec, "delta_rule_states", "delta_rule_outputs");
  spec.reference = deltaRuleReference;
  spec.factor = 3; // by chunks more numbers are rounded than step by step
  spec.defaults = defaults;
  spec.apply = apply;
}

} // namespace

void delta::addInputsByChannel(KernelSpec &spec, bool isRwkv) {
  const DeltaForm form{.isByChannel = true, .isRwkv = isRwkv};
  spec.add_arguments(inputs(form));
  spec.add_options(options(form));
  if (isRwkv)
    spec.sample_dependent = sampleWrites;
}

KernelSpec sectile::kdaSpec() {
  KernelSpec spec;
  spec.name = "kda";
  spec.summary = "the delta rule with a decay for each channel (Kimi Delta Attention), or gated "
                 "linear attention, by chunks: S = diag(e^g) S, u = beta (v - S^T k), S = S + k "
                 "u^T at each step, o = scale S^T q";
  completeByChannel(spec, false);
  return spec;
}

KernelSpec sectile::rwkv7Spec() {
  KernelSpec spec;
  spec.name = "rwkv7";
  spec.summary = "RWKV-7 by chunks: S = diag(e^g) S + b (a^T S) + beta k v^T at each step, "
                 "o = scale S^T q";
  completeByChannel(spec, true);
  return spec;
}
