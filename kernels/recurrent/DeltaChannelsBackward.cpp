// kda_backward and rwkv7_backward: by chunks, with the states before them computed once more, as in
// DeltaRuleBackward.cpp. In the terms of DeltaChannels.cpp a chunk has rows that read, the queries
// and what steps take of the state before them, and rows that write, with what steps add (n) and
// with v. With P and A what these have in common, of queries and of the others:
//   n = X r, dn = P^T do + (rows that write, to the end) E, dr = X^T dn, dP = do n^T, dA = dr n^T,
//   E before the chunk = diag(e^G_end) E + (queries, from the start)^T do - (reads)^T dn.
// A pair of steps gives to the decays of the steps between the two. By halves of blocks, as pairs
// are taken, this is a sum over some of a half's steps, in which no terms cancel out: what decays
// to nothing has gradients of nothing. Only E goes from chunk to chunk, from the last on, and sums
// over heads that share keys have the order of the heads. A NaN or an infinity of a step may reach
// the gradients of all steps of its chunk.
#include "kernels/recurrent/DeltaChannels.h"
#include "kernels/recurrent/DeltaGradients.h"
#include "kernels/recurrent/Family.h"
#include <bit>

using namespace sectile;
using namespace sectile::delta;

namespace {

// From the last chunk to the first: leaves the gradient of the state after each, and that of what
// its steps add (`added`).
template <class T>
Kernel channelStateGradients{
    "delta_rule_state_gradients",
    [](View<const T, 4> output, View<const std::int32_t, 1> starts, View<const T, 5> rows,
       View<const T, 5> scores, View<const float, 3> whole, View<const float, 4> last,
       View<T, 4> added, View<float, 4> gradients, View<float, 4> initial,
       const DeltaConfig &config) {
      const int chunk = config.chunk, width = config.width, columns = config.columns;
      auto column = program_id(0), head = program_id(1), one = program_id(2);
      const auto sequence = sequenceOf(starts, one, output.extent(1), config);
      const Places places(config);
      auto outputs = sequence.rows(output, head).tile(chunk, columns);
      auto gradient = zeros<float>(width, columns);
      if (config.dfinal_state)
        gradient = last.at(one, head).tile(width, columns).load(0, column);
      auto chunks = cdiv(sequence.tokens.length, chunk);
      for (auto step : range(0, chunks)) {
        auto number = chunks - 1 - step, slot = sequence.slot + number;
        const auto rowsIn = [&](int place) {
          return rows.at(place, slot, head).tile(chunk, width).load(0, 0);
        };
        auto out = outputs.load(number, column);
        gradients.at(slot, head).tile(width, columns).store(0, column, gradient);
        auto next =
            dot(trans(rowsIn(places.queries)), out,
                gradient * expand(whole.at(slot, head).tile(width).load(0), 1), Precision::ieee);
        if (config.corrects) {
          auto queried = dot(trans(scores.at(0, slot, head).tile(chunk, chunk).load(0, 0)), out,
                             zeros<float>(chunk, columns), Precision::ieee);
          auto all = cast<T>(withState(rowsIn(places.ofAdded), gradient, queried));
          added.at(slot, head).tile(chunk, columns).store(0, column, all);
          next -=
              dot(trans(rowsIn(places.reads)), all, zeros<float>(width, columns), Precision::ieee);
        }
        gradient = next;
      }
      if (config.initial_state)
        initial.at(one, head).tile(width, columns).store(0, column, gradient);
    }};

// What is kept of each chunk [slots, Hv, chunk, chunk], one after another: the inverse, and the
// gradients of what rows have in common: of queries and of readers with what steps add, and with v.
struct Squares {
  int inverse = 0, scores = 1, triangle = 2, valueScores, reads;

  explicit Squares(const DeltaConfig &config)
      : valueScores(config.corrects ? 3 : 0), reads(valueScores + 1) {}
  int count(const DeltaConfig &config) const {
    return valueScores + config.direct + (config.direct && config.corrects);
  }
};

// So many channels has a program at once: 8 numbers a thread of each tile.
int channelsOf(const DeltaConfig &config) {
  return std::min(config.width, 256 * config.warps / config.chunk);
}

// The gradients of a chunk's rows, or of some of their channels: of rows that read, and of rows
// that write.
struct RowGradients {
  Tile<float> query, reader, added, written;

  RowGradients(int chunk, int width)
      : query(zeros<float>(chunk, width)), reader(query), added(query), written(query) {}
  static int count(const DeltaConfig &config) { return 1 + 2 * config.corrects + config.direct; }
  // Calls body(number, gradient) for those that there are.
  template <class Body> void each(const DeltaConfig &config, Body &&body) {
    int number = 0;
    body(number++, query);
    if (config.corrects) {
      body(number++, reader);
      body(number++, added);
    }
    if (config.direct)
      body(number++, written);
  }
};

// Of one chunk, by columns of v: dv, and the gradients of the rows by the states before and after
// the chunk, but for decays. `both` [slots, Hv, K] is what these states give to decays.
template <class T>
Kernel columnGradients{
    "delta_rule_column_gradients",
    [](View<const T, 4> v, View<const float, 3> beta, View<const std::int32_t, 1> starts,
       View<const T, 4> output, View<const T, 5> rows, View<const T, 5> scores,
       View<const T, 5> added, View<const float, 5> kept, View<T, 4> dv, View<float, 3> dbeta,
       View<float, 5> squares, View<float, 5> gradients, View<float, 3> decayed,
       const DeltaConfig &config) {
      const bool isApart = config.corrects && config.direct;
      const int chunk = config.chunk, width = config.width, columns = config.columns;
      const Places places(config);
      const Squares at(config);
      auto slot = program_id(0), head = program_id(1);
      withChunk(
          starts, slot, v.extent(1), config, [&](const Sequence &sequence, const Int &number) {
            const auto product = [](const Tile<float> &x, const Tile<float> &y,
                                    const Tile<float> &sum) {
              return dot(x, y, sum, statePrecision<T>);
            };
            const auto square = [&](const auto &x, int which) {
              return x.at(which, slot, head).tile(chunk, chunk);
            };
            auto strength = strengthsOf(sequence.numbers(beta, head), number, config);
            Tile<float> inverse;
            if (config.corrects)
              inverse = trans(square(squares, at.inverse).load(0, 0));
            auto ofScores = zeros<float>(chunk, chunk);
            auto ofTriangle = ofScores, ofValueScores = ofScores, ofReads = ofScores;
            RowGradients own(chunk, width);
            auto ofBeta = zeros<float>(chunk);
            auto both = zeros<float>(width);
            for (auto column : range(0, cdiv(v.extent(3), columns))) {
              const auto ofSteps = [&](int which) {
                return cast<float>(
                    added.at(which, slot, head).tile(chunk, columns).load(0, column));
              };
              const auto ofState = [&](int which) {
                return kept.at(which, slot, head).tile(width, columns).load(0, column);
              };
              auto narrow = sequence.rows(output, head).tile(chunk, columns).load(number, column);
              auto out = cast<float>(narrow),
                   value = cast<float>(
                       sequence.rows(v, head).tile(chunk, columns).load(number, column));
              auto state = ofState(0), slope = ofState(1);
              auto ofValue = zeros<float>(chunk, columns);
              both += sum(state * slope, 1);
              own.query = product(out, trans(state), own.query);
              if (config.corrects) {
                auto news = ofSteps(0);
                auto right = product(inverse, ofSteps(1), zeros<float>(chunk, columns));
                auto read = right;
                if (isApart) {
                  ofReads = product(right, trans(value), ofReads);
                  ofValue =
                      product(trans(cast<float>(square(scores, 2).load(0, 0))), right, ofValue);
                } else {
                  // What a key has is taken off.
                  read = zeros<float>(chunk, columns) - right;
                  ofBeta += sum(right * value, 1);
                  ofValue = right * expand(strength, 1);
                }
                own.reader = product(read, trans(state), own.reader);
                own.added = product(news, trans(slope), own.added);
                ofScores = product(out, trans(news), ofScores);
                ofTriangle = product(read, trans(news), ofTriangle);
              }
              if (config.direct) {
                own.written = product(value, trans(slope), own.written);
                ofValueScores = product(out, trans(value), ofValueScores);
                ofValue = dot(trans(square(scores, config.corrects ? 1 : 0).load(0, 0)), narrow,
                              ofValue, Precision::ieee);
                ofValue =
                    withState(rows.at(places.ofValues, slot, head).tile(chunk, width).load(0, 0),
                              slope, ofValue);
              }
              auto to = sequence.rows(dv, head).tile(chunk, columns);
              if (config.D)
                ofValue += cast<float>(to.load(number, column));
              to.store(number, column, ofValue);
            }
            if (config.corrects) {
              square(squares, at.scores).store(0, 0, ofScores);
              square(squares, at.triangle).store(0, 0, ofTriangle);
            }
            if (config.direct)
              square(squares, at.valueScores).store(0, 0, ofValueScores);
            if (isApart)
              square(squares, at.reads).store(0, 0, ofReads);
            own.each(config, [&](int which, const Tile<float> &gradient) {
              gradients.at(which, slot, head).tile(chunk, width).store(0, 0, gradient);
            });
            if (config.gk)
              decayed.at(slot, head).tile(width).store(0, both);
            if (config.beta && config.corrects && !isApart)
              sequence.numbers(dbeta, head).tile(chunk).store(number, ofBeta);
          });
    }};

// Of one chunk, by channels: the gradients of decays, and the whole gradients of the rows in place
// of those by the states.
template <class T>
Kernel channelGradients{
    "delta_rule_gradients",
    [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> a, View<const T, 4> b,
       View<const float, 3> beta, View<const float, 4> g, View<const std::int32_t, 1> starts,
       View<const float, 5> squares, View<const float, 3> decayed, View<float, 5> gradients,
       View<float, 4> dg, Float scale, const DeltaConfig &config) {
      const bool isApart = config.corrects && config.direct;
      const int chunk = config.chunk, width = config.width, block = channelsOf(config);
      auto parts = cdiv(k.extent(3), block);
      auto slot = program_id(0) / parts, part = program_id(0) % parts, head = program_id(1);
      withChunk(
          starts, slot, k.extent(1), config, [&](const Sequence &sequence, const Int &number) {
            const auto product = [](const Tile<float> &x, const Tile<float> &y,
                                    const Tile<float> &sum) { return rangedDot<T>(x, y, sum); };
            auto shared = head / (gradients.extent(2) / k.extent(2));
            const auto factorsOf = [&](const View<const T, 4> &x) {
              if (!config.l2norm)
                return full<float>(1, chunk, 1);
              return expand(
                  factors(sequence.rows(x, shared).tile(chunk, width).load(number, 0), config), 1);
            };
            auto queryFactor = factorsOf(q) * scale, keyFactor = factorsOf(k);
            auto strength = strengthsOf(sequence.numbers(beta, head), number, config);
            auto i = expand(arange(0, chunk), 1), j = expand(arange(0, chunk), 0);
            const Squares at(config);
            const auto square = [&](bool isThere, int which) {
              if (!isThere)
                return zeros<float>(chunk, chunk);
              return squares.at(which, slot, head).tile(chunk, chunk).load(0, 0);
            };
            auto ofScores = square(config.corrects, at.scores),
                 ofTriangle = square(config.corrects, at.triangle),
                 ofValueScores = square(config.direct, at.valueScores),
                 ofReads = square(isApart, at.reads);
            const auto rowsOf = [&](const View<const T, 4> &x) {
              return cast<float>(sequence.rows(x, shared).tile(chunk, block).load(number, part));
            };
            const auto gradientAt = [&](int which) {
              return gradients.at(which, slot, head).tile(chunk, block);
            };
            auto query = rowsOf(q) * queryFactor, key = rowsOf(k) * keyFactor;
            auto weighted = key * expand(strength, 1);
            // Rows that read, and rows that write what steps add; `weighted` writes v.
            auto reader = weighted, adder = key;
            const ChannelDecays<T> decays(sequence.rows(g, head), number, part, block, config);
            if (isApart) {
              reader = rowsOf(a);
              adder = rowsOf(b);
            }
            // By the states before and after the chunk.
            RowGradients own(chunk, block);
            own.each(config, [&](int which, Tile<float> &gradient) {
              gradient = gradientAt(which).load(0, part);
            });
            auto fromStart = decays.upTo(chunk), toEnd = decays.after(chunk);
            own.query *= fromStart;
            if (config.corrects) {
              own.reader *= isApart ? decays.before(chunk) : fromStart;
              own.added *= toEnd;
            }
            if (config.direct)
              own.written *= toEnd;
            // What each step's rows, decayed, have to do with their gradients.
            const auto reads = [&](const RowGradients &x) {
              auto all = query * x.query;
              return config.corrects && !isApart ? all + reader * x.reader : all;
            };
            const auto writes = [&](const RowGradients &x) {
              if (!config.corrects)
                return weighted * x.written;
              auto all = adder * x.added;
              return config.direct ? all + weighted * x.written : all;
            };
            auto ofLogs = zeros<float>(chunk, block);
            // Adds sums of each step and what comes before or after it, within blocks.
            const auto add = [&](const Tile<float> &x, int size, const Scan &scan) {
              if (config.gk)
                ofLogs += scanned(x, size, scan);
            };
            if (config.gk)
              ofLogs += expand(decays.whole() * decayed.at(slot, head).tile(block).load(part), 0);
            add(reads(own), chunk, {.reverse = true});
            if (isApart)
              add(reader * own.reader, chunk, {.reverse = true, .exclusive = true});
            add(writes(own), chunk, {.exclusive = true});

            // By pairs of steps: a row's own step first, which no decay is between.
            const auto diagonal = [&](const Tile<float> &x) {
              return expand(sum(where(i == j, x, 0.0f), 1), 1);
            };
            if (config.corrects) {
              auto score = diagonal(ofScores);
              own.query += score * adder;
              own.added += score * query;
            }
            if (config.direct) {
              auto score = diagonal(ofValueScores);
              own.query += score * weighted;
              own.written += score * query;
            }
            for (int half = 1; half < chunk; half *= 2) {
              auto isLate = expand((arange(0, chunk) & half) != 0, 1);
              const auto met = [&](const Tile<float> &x) {
                return where((i > j) & ((i ^ j) >= half) & ((i ^ j) < 2 * half), x, 0.0f);
              };
              auto decay = where(isLate, decays.upTo(half), decays.after(half));
              auto readerDecay = decay;
              if (isApart)
                readerDecay = where(isLate, decays.before(half), 1.0f);
              auto left = query * decay, from = reader * readerDecay;
              RowGradients pair(chunk, block);
              if (config.corrects) {
                auto right = adder * decay;
                auto scored = met(ofScores), known = met(ofTriangle);
                pair.query = product(scored, right, pair.query);
                pair.reader = product(known, right, pair.reader);
                pair.added = product(trans(scored), left, pair.added);
                pair.added = product(trans(known), from, pair.added);
              }
              if (config.direct) {
                auto right = weighted * decay;
                auto scored = met(ofValueScores);
                pair.query = product(scored, right, pair.query);
                pair.written = product(trans(scored), left, pair.written);
                if (isApart) {
                  auto known = met(ofReads);
                  pair.reader = product(known, right, pair.reader);
                  pair.written = product(trans(known), from, pair.written);
                }
              }
              pair.query *= decay;
              own.query += pair.query;
              if (config.corrects) {
                pair.reader *= readerDecay;
                pair.added *= decay;
                own.reader += pair.reader;
                own.added += pair.added;
              }
              if (config.direct) {
                pair.written *= decay;
                own.written += pair.written;
              }
              // Rows that read lie in later halves, rows that write in earlier ones: of the
              // former the step itself and those before it, of the latter those after it.
              const auto all = reads(pair) + writes(pair);
              add(where(isLate, all, 0.0f), half, {.reverse = true});
              add(where(isLate, 0.0f, all), half, {.exclusive = true});
              if (isApart)
                add(reader * pair.reader, half, {.reverse = true, .exclusive = true});
            }

            own.each(config, [&](int which, const Tile<float> &gradient) {
              gradientAt(which).store(0, part, gradient);
            });
            if (config.gk)
              sequence.rows(dg, head).tile(chunk, block).store(number, part, ofLogs);
          });
    }};

// Of one chunk and a head of the keys: the gradients of q, k, a and b are sums over the heads of
// the values that share it, those of beta are of each of these.
template <class T>
Kernel rowSums{
    "delta_rule_row_sums", [](View<const T, 4> q, View<const T, 4> k, View<const float, 3> beta,
                              View<const std::int32_t, 1> starts, View<const float, 5> gradients,
                              View<T, 4> dq, View<T, 4> dk, View<T, 4> da, View<T, 4> db,
                              View<float, 3> dbeta, Float scale, const DeltaConfig &config) {
      const bool isApart = config.corrects && config.direct;
      const int chunk = config.chunk, width = config.width;
      auto slot = program_id(0), shared = program_id(1);
      auto group = gradients.extent(2) / k.extent(2);
      withChunk(
          starts, slot, k.extent(1), config, [&](const Sequence &sequence, const Int &number) {
            const auto rowsOf = [&](const auto &x) {
              return sequence.rows(x, shared).tile(chunk, width);
            };
            auto query = rowsOf(q).load(number, 0), key = rowsOf(k).load(number, 0);
            auto keyFactor = factors(key, config);
            auto normal = cast<float>(key) * expand(keyFactor, 1);
            RowGradients all(chunk, width);
            auto dKey = all.query;
            for (auto member : range(0, group)) {
              auto head = shared * group + member;
              RowGradients own(chunk, width);
              own.each(config, [&](int which, Tile<float> &gradient) {
                gradient = gradients.at(which, slot, head).tile(chunk, width).load(0, 0);
              });
              auto strength = strengthsOf(sequence.numbers(beta, head), number, config);
              auto ofWeighted = config.direct ? own.written : own.reader;
              all.query += own.query;
              dKey += ofWeighted * expand(strength, 1);
              if (isApart)
                all.reader += own.reader;
              if (config.corrects)
                all.added += own.added;
              if (config.beta) {
                auto to = sequence.numbers(dbeta, head).tile(chunk);
                auto ofBeta = sum(ofWeighted * normal, 1);
                if (config.corrects && !isApart)
                  ofBeta += to.load(number);
                to.store(number, ofBeta);
              }
            }
            if (!isApart)
              dKey += all.added;
            rowsOf(dq).store(number, 0,
                             beforeNorm(all.query * scale, query, factors(query, config), config));
            rowsOf(dk).store(number, 0, beforeNorm(dKey, key, keyFactor, config));
            if (isApart) {
              rowsOf(da).store(number, 0, all.reader);
              rowsOf(db).store(number, 0, all.added);
            }
          });
    }};

void apply(Use &use) {
  const DeltaCall call(use, true);
  const GateNumbers strengths = strengthsOf(use.call), decays = decaysOf(use.call);
  const auto dbeta = gradientOf<3>(use, strengths);
  const auto dg = gradientOf<4>(use, decays);
  const std::int64_t slots = call.slots, heads = call.heads, chunk = call.states.chunk;
  const bool corrects = call.states.corrects, isRwkv = corrects && call.states.direct;
  const auto squares = use.workspace<float, 5>(
                 {Squares(call.wide).count(call.wide), slots, heads, chunk, chunk}),
             gradients = use.workspace<float, 5>(
                 {RowGradients::count(call.wide), slots, heads, chunk, call.k});
  const auto last = use.workspace<float, 4>({call.count, heads, call.k, call.v});
  const auto decayed = use.workspace<float, 3>({slots, heads, call.k});
  // The states before the chunks, and the gradients of those after them.
  const auto kept = use.workspace<float, 5>({2, slots, heads, call.k, call.v});
  const auto states = oneOf(kept, 0);
  for_dtype<half, bfloat16, float>(use.call.dtype("q"), [&]<class T>(T) {
    const auto q = use.tensor<T, 4>("q"), k = use.tensor<T, 4>("k"), dv = use.tensor<T, 4>("dv");
    const auto ofRwkv = [&](const char *name) {
      return isRwkv ? use.tensor<T, 4>(name) : noTensor<T, 4>();
    };
    // What steps add, and its gradient.
    auto added = noTensor<T, 5>();
    auto news = noTensor<T, 4>(), ofNews = news;
    auto inverses = noTensor<float, 4>();
    if (corrects) {
      added = use.workspace<T, 5>({2, slots, heads, chunk, call.v});
      news = oneOf(added, 0);
      ofNews = oneOf(added, 1);
      inverses = oneOf(squares, Squares(call.wide).inverse);
    }
    const auto chunks = launchChannelStates(use, call, dv, news, inverses, states, last);
    const auto output = launchThroughGates<T>(use, call, [&](const Tensor<T, 4> &o) {
      launchChannelOutputs(use, call, chunks, states, o, false);
    });
    use(channelStateGradients<T>, Grid(ceilDiv(call.v, call.states.columns), heads, call.count),
        output, call.starts, chunks.rows, chunks.scores, chunks.whole,
        use.tensor<float, 4>("dfinal_state"), ofNews, oneOf(kept, 1),
        use.tensor<float, 4>("dinitial_state"), call.states);
    // Which sums up the gradients of all rows, all channels of them.
    DeltaConfig rowWise = call.wide;
    const auto most = std::bit_ceil(static_cast<unsigned>(rowWise.width * rowWise.chunk / 512));
    rowWise.warps = std::max(rowWise.warps, static_cast<int>(std::min(most, 8u)));
    use(columnGradients<T>, Grid(slots, heads), use.tensor<T, 4>("v"), call.beta, call.starts,
        output, chunks.rows, chunks.scores, added, kept, dv, dbeta, squares, gradients, decayed,
        rowWise);
    use(channelGradients<T>, Grid(slots * ceilDiv(call.k, channelsOf(call.wide)), heads), q, k,
        ofRwkv("a"), ofRwkv("b"), call.beta, call.gk, call.starts, squares, decayed, gradients, dg,
        call.scale, call.wide);
    use(rowSums<T>, Grid(slots, use.call.extent("Hk")), q, k, call.beta, call.starts, gradients,
        use.tensor<T, 4>("dq"), use.tensor<T, 4>("dk"), ofRwkv("da"), ofRwkv("db"), dbeta,
        call.scale, call.wide);
  });
  launchGradients(use, strengths, dbeta);
  launchChannelGradients(use, decays, dg);
}

Config defaults(const Invocation &call, const std::string &target) {
  const DType dtype = call.tensors[0].dtype;
  const bool isHalf = dtype != DType::float32 && hasMatrixUnits(target, dtype);
  const std::int64_t width = widthOf(call);
  // With rwkv7 four gradients of a chunk's rows are summed up at once.
  const std::int64_t most = ruleOf(call) == StateRule::rwkv7 ? 64 : 128;
  return {{"chunk", isHalf && call.extent("T") > 16 && width <= most ? 32 : 16},
          {"dv", width > 128 ? 16 : 32},
          {"warps", 4},
          {"columns", width > most ? 16 : 32},
          {"chunk_warps", 4}};
}

KernelSpec specOf(const std::string &forward, bool isRwkv) {
  KernelSpec spec;
  spec.name = forward + "_backward";
  spec.summary = "gradients of " + forward;
  addInputsByChannel(spec, isRwkv);
  std::vector<std::string> inputs{"q",     "k",       "v", "beta", "g",
                                  "A_log", "dt_bias", "D", "z",    "initial_state"};
  if (isRwkv)
    inputs.insert(inputs.begin() + 3, {"a", "b"});
  completeGradients(spec, inputs);
  spec.defaults = defaults;
  spec.apply = apply;
  return spec;
}

} // namespace

KernelSpec sectile::kdaBackwardSpec() { return specOf("kda", false); }
KernelSpec sectile::rwkv7BackwardSpec() { return specOf("rwkv7", true); }
