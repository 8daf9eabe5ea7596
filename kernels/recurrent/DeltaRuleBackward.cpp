// delta_rule_backward: by chunks, with the states before them computed once more. In the terms of
// delta_rule, with E the gradient of the state after a chunk, P the scores of queries and keys and
// D the decay between steps:
//   du = P^T do + (e^(G_end - G) k) E for the gradient of what the steps add, dr = X^T du,
//   E before the chunk = e^G_end E + (scale e^G q)^T do - (X beta e^G k)^T du,
// and dv = beta dr, dA = -dr u^T; those of q, k, beta and the decays follow from the formulas of
// the forward pass. Only E goes from chunk to chunk, from the last on. A NaN or an infinity of a
// step may reach the gradients of all steps of its chunk.
#include "kernels/recurrent/DeltaGradients.h"
#include "kernels/recurrent/Family.h"

using namespace sectile;
using namespace sectile::delta;

namespace {

// Of each chunk: what the outputs give to the gradient of what its steps add.
template <class T>
Kernel outputGradients{
    "delta_rule_output_gradients",
    [](View<const T, 4> q, View<const T, 4> k, View<const float, 3> g,
       View<const std::int32_t, 1> starts, View<const T, 4> output, View<T, 4> added, Float scale,
       const DeltaConfig &config) {
      const int chunk = config.chunk, width = config.width, columns = config.columns;
      auto slot = program_id(0), head = program_id(1);
      withChunk(
          starts, slot, q.extent(1), config, [&](const Sequence &sequence, const Int &number) {
            auto shared = head / (output.extent(2) / q.extent(2));
            auto query = sequence.rows(q, shared).tile(chunk, width).load(number, 0),
                 key = sequence.rows(k, shared).tile(chunk, width).load(number, 0);
            auto scores = trans(cast<T>(scoresOf(
                query, key, Decays(sequence.numbers(g, head), number, config), scale, config)));
            auto outs = sequence.rows(output, head).tile(chunk, columns);
            auto to = added.at(slot, head).tile(chunk, columns);
            for (auto column : range(0, cdiv(output.extent(3), columns)))
              to.store(0, column,
                       dot(scores, outs.load(number, column), zeros<float>(chunk, columns),
                           Precision::ieee));
          });
    }};

// From the last chunk to the first: leaves the gradient of the state after each, and completes that
// of what its steps add.
template <class T>
Kernel stateGradients{
    "delta_rule_state_gradients",
    [](View<const T, 4> q, View<const T, 4> k, View<const float, 3> g,
       View<const std::int32_t, 1> starts, View<const T, 4> output, View<const T, 4> reads,
       View<const float, 4> last, View<T, 4> added, View<Ranged<T>, 4> gradients,
       View<float, 4> initial, Float scale, const DeltaConfig &config) {
      const int chunk = config.chunk, width = config.width, columns = config.columns;
      auto column = program_id(0), head = program_id(1), one = program_id(2);
      const auto sequence = sequenceOf(starts, one, k.extent(1), config);
      auto shared = head / (output.extent(2) / k.extent(2));
      auto queries = sequence.rows(q, shared).tile(chunk, width),
           keys = sequence.rows(k, shared).tile(chunk, width);
      auto outputs = sequence.rows(output, head).tile(chunk, columns);
      auto logs = sequence.numbers(g, head);
      auto gradient = zeros<float>(width, columns);
      if (config.dfinal_state)
        gradient = last.at(one, head).tile(width, columns).load(0, column);
      auto chunks = cdiv(sequence.tokens.length, chunk);
      for (auto step : range(0, chunks)) {
        auto number = chunks - 1 - step, slot = sequence.slot + number;
        auto query = queries.load(number, 0), key = keys.load(number, 0);
        auto out = outputs.load(number, column);
        auto to = added.at(slot, head).tile(chunk, columns);
        const Decays decays(logs, number, config);
        auto late = expand(decays.toEnd * factors(key, config), 1);
        gradients.at(slot, head).tile(width, columns).store(0, column, cast<Ranged<T>>(gradient));
        auto all = cast<T>(cast<float>(to.load(0, column)) +
                           late * withState(key, gradient, zeros<float>(chunk, columns)));
        to.store(0, column, all);
        auto before = decays.fromStart * factors(query, config) * scale;
        gradient = dot(trans(query), cast<T>(cast<float>(out) * expand(before, 1)),
                       gradient * decays.whole, Precision::ieee);
        if (config.corrects)
          gradient -= dot(trans(reads.at(slot, head).tile(chunk, width).load(0, 0)), all,
                          zeros<float>(width, columns), Precision::ieee);
      }
      if (config.initial_state)
        initial.at(one, head).tile(width, columns).store(0, column, gradient);
    }};

// Sums over the steps before each.
Tile<float> sumBefore(const Tile<float> &x) { return cumsum(x, 0) - x; }

// Of one chunk and a head of the values: dq and dk are this head's share, as [B, T, Hv, K].
template <class T, class Out>
Kernel chunkGradients{
    "delta_rule_gradients",
    [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<const float, 3> beta,
       View<const float, 3> g, View<const std::int32_t, 1> starts, View<const T, 4> output,
       View<const T, 5> added, View<const float, 4> inverses, View<const Ranged<T>, 5> kept,
       View<Out, 4> dq, View<Out, 4> dk, View<T, 4> dv, View<float, 3> dbeta, View<float, 3> dg,
       Float scale, const DeltaConfig &config) {
      const int chunk = config.chunk, width = config.width, columns = config.columns;
      auto slot = program_id(0), head = program_id(1), shared = head / (v.extent(2) / k.extent(2));
      withChunk(
          starts, slot, k.extent(1), config, [&](const Sequence &sequence, const Int &number) {
            auto query = sequence.rows(q, shared).tile(chunk, width).load(number, 0),
                 key = sequence.rows(k, shared).tile(chunk, width).load(number, 0);
            auto queryFactor = factors(query, config), keyFactor = factors(key, config);
            auto i = expand(arange(0, chunk), 1), j = expand(arange(0, chunk), 0);
            const auto square = zeros<float>(chunk, chunk), rows = zeros<float>(chunk, width);
            auto strength = strengthsOf(sequence.numbers(beta, head), number, config);
            Tile<float> inverse;
            if (config.corrects)
              inverse = trans(inverses.at(slot, head).tile(chunk, chunk).load(0, 0));
            auto before = kept.at(0, slot, head).tile(width, columns),
                 after = kept.at(1, slot, head).tile(width, columns);
            auto news = added.at(0, slot, head).tile(chunk, columns),
                 ofNews = added.at(config.corrects ? 1 : 0, slot, head).tile(chunk, columns);
            auto from = sequence.rows(v, head).tile(chunk, columns),
                 outs = sequence.rows(output, head).tile(chunk, columns);
            auto to = sequence.rows(dv, head).tile(chunk, columns);
            // Sums over the columns: gradients of the scores, of the triangle and of beta, and
            // what the state before the chunk is for queries and for keys, and the gradient of
            // the one after for keys.
            auto ofScores = square, ofTriangle = square;
            auto queried = rows, known = rows, lasting = rows;
            auto ofBeta = zeros<float>(chunk);
            auto both = zeros<float>(width);
            for (auto column : range(0, cdiv(v.extent(3), columns))) {
              auto out = outs.load(number, column), value = from.load(number, column);
              auto state = before.load(0, column), slope = after.load(0, column);
              // What the steps add, and the gradient of what they would add without a state;
              // without corrections the former is the values, times beta.
              auto fresh = config.corrects ? news.load(0, column) : value,
                   slopes = ofNews.load(0, column);
              auto right = config.corrects ? withRows(inverse, slopes, zeros<float>(chunk, columns))
                                           : cast<float>(slopes);
              auto ofValue = right * expand(strength, 1);
              if (config.D)
                ofValue += cast<float>(to.load(number, column));
              to.store(number, column, ofValue);
              ofBeta += sum(right * cast<float>(value), 1);
              both += sum(cast<float>(state) * cast<float>(slope), 1);
              ofScores = rangedDot<T>(out, trans(fresh), ofScores);
              queried = rangedDot<T>(out, trans(state), queried);
              lasting = rangedDot<T>(fresh, trans(slope), lasting);
              if (config.corrects) {
                ofTriangle = rangedDot<T>(right, trans(fresh), ofTriangle);
                known = rangedDot<T>(right, trans(state), known);
              }
            }
            auto logs = sequence.numbers(g, head);
            const Decays decays(logs, number, config);
            auto between = decays.between();
            const auto alongQuery = [&](const Tile<float> &x) {
              return sum(x * cast<float>(query), 1) * queryFactor;
            };
            const auto alongKey = [&](const Tile<float> &x) {
              return sum(x * cast<float>(key), 1) * keyFactor;
            };
            queried *= expand(decays.fromStart * scale, 1);
            lasting *= expand(config.corrects ? decays.toEnd : decays.toEnd * strength, 1);
            if (!config.corrects)
              ofScores *= expand(strength, 0);
            // Gradients of the sums of logarithms at steps: by the state before the chunk, and
            // by the one after.
            auto early = alongQuery(queried), late = alongKey(lasting);
            auto dQuery = queried, dKey = lasting;
            if (config.corrects) {
              known *= expand(decays.fromStart, 1);
              auto forgotten = alongKey(known);
              ofBeta -= forgotten;
              early -= strength * forgotten;
              dKey -= known * expand(strength, 1);
            }
            auto pairs = where(i >= j, ofScores * between * scale, 0.0f);
            // With the factors of the rows that they multiply.
            auto forQuery = pairs * expand(keyFactor, 0), forKey = pairs * expand(queryFactor, 1);
            auto weights =
                forQuery * dot(query, trans(key), square, Precision::ieee) * expand(queryFactor, 1);
            dQuery = rangedDot<T>(forQuery, key, dQuery);
            dKey = rangedDot<T>(trans(forKey), query, dKey);
            if (config.corrects) {
              auto like = dot(key, trans(key), square, Precision::ieee) * expand(keyFactor, 1) *
                          expand(keyFactor, 0);
              auto triangle = where(i > j, -ofTriangle * between, 0.0f);
              ofBeta += sum(triangle * like, 1);
              triangle *= expand(strength, 1);
              weights += triangle * like;
              dKey = rangedDot<T>((triangle + trans(triangle)) * expand(keyFactor, 0), key, dKey);
            }
            if (config.beta)
              sequence.numbers(dbeta, head).tile(chunk).store(number, ofBeta);
            if (config.g) {
              // A step's decay weighs on what passes it: from an earlier step, or the state
              // before the chunk, to the step itself, a later one or the state after the
              // chunk.
              auto passing = where(i > j, cumsum(where(i > j, weights, 0.0f), 0, true), 0.0f);
              auto all = sum(passing, 1) + cumsum(early, 0, true) + sumBefore(late) +
                         decays.whole * sum(both, 0);
              sequence.numbers(dg, head).tile(chunk).store(number, all);
            }
            sequence.rows(dq, head)
                .tile(chunk, width)
                .store(number, 0, beforeNorm(dQuery, query, queryFactor, config));
            sequence.rows(dk, head)
                .tile(chunk, width)
                .store(number, 0, beforeNorm(dKey, key, keyFactor, config));
          });
    }};

// Sums over the heads that share one of the keys: of shares [2, B, T, Hv, K] dq and dk.
template <class T>
Kernel sharedSums{
    "delta_rule_shared_gradients",
    [](View<const float, 5> shares, View<T, 4> dq, View<T, 4> dk, const DeltaConfig &config) {
      const int chunk = config.chunk, width = config.width;
      auto blocks = cdiv(dq.extent(1), chunk);
      auto block = program_id(0) % blocks, batch = program_id(0) / blocks, shared = program_id(1);
      auto group = shares.extent(3) / dq.extent(2);
      for (int which = 0; which < 2; ++which) {
        auto total = zeros<float>(chunk, width);
        for (auto member : range(0, group))
          total += shares.at(which, batch)
                       .fix(1, shared * group + member)
                       .tile(chunk, width)
                       .load(block, 0);
        (which ? dk : dq).at(batch).fix(1, shared).tile(chunk, width).store(block, 0, total);
      }
    }};

// What D and z take: from do and o without z to the gradient of that (`output`), dz, what v gets by
// D (`dv`), and sums over this program's steps and columns for D: parts [programs, Hv].
template <class T>
Kernel throughGates{
    "delta_rule_output_gates",
    [](View<const T, 4> gradient, View<const T, 4> o, View<const T, 4> v, View<const T, 4> z,
       View<const float, 1> D, View<T, 4> output, View<T, 4> dz, View<T, 4> dv,
       View<float, 2> parts, const DeltaConfig &config) {
      const int chunk = config.chunk, columns = config.columns;
      auto blocks = cdiv(v.extent(1), chunk);
      auto block = program_id(0) % blocks, batch = program_id(0) / blocks, head = program_id(1);
      const auto rows = [&](const auto &x) {
        return x.at(batch).fix(1, head).tile(chunk, columns);
      };
      auto ofD = zeros<float>(chunk);
      for (auto column : range(0, cdiv(v.extent(3), columns))) {
        auto out = cast<float>(rows(gradient).load(block, column));
        if (config.z) {
          auto gate = cast<float>(rows(z).load(block, column)), part = sigmoid(gate);
          auto ungated = cast<float>(rows(o).load(block, column));
          rows(dz).store(block, column, out * ungated * part * (1.0f + gate * (1.0f - part)));
          out *= gate * part;
          rows(output).store(block, column, out);
        }
        if (config.D) {
          ofD += sum(out * cast<float>(rows(v).load(block, column)), 1);
          rows(dv).store(block, column,
                         out * load(D.ptr() + cast<std::int64_t>(head) * D.stride(0)));
        }
      }
      if (config.D)
        parts.at(program_id(0)).tile(1).store(head, full<float>(sum(ofD, 0), 1));
    }};

} // namespace

template <class T>
Tensor<T, 4>
delta::launchThroughGates(Use &use, const DeltaCall &call,
                          const std::function<void(const Tensor<T, 4> &o)> &launchUngated) {
  auto output = use.tensor<T, 4>("do"), o = noTensor<T, 4>(), gradient = output;
  const DeltaConfig &config = call.wide;
  if (!config.z && !config.D)
    return output;
  const std::int64_t batches = use.extent("B"), length = use.extent("T"),
                     count = batches * ceilDiv(length, config.chunk);
  if (config.z) {
    gradient = use.workspace<T, 4>({batches, length, call.heads, call.v});
    o = use.workspace<T, 4>({batches, length, call.heads, call.v});
    launchUngated(o);
  }
  const auto parts = config.D ? use.workspace<float, 2>({count, call.heads}) : noTensor<float, 2>();
  use(throughGates<T>, Grid(count, call.heads), output, o, use.tensor<T, 4>("v"),
      use.tensor<T, 4>("z"), use.tensor<float, 1>("D"), gradient, use.tensor<T, 4>("dz"),
      use.tensor<T, 4>("dv"), parts, config);
  if (config.D)
    launchHeadSums(use, parts, use.tensor<float, 1>("dD"));
  return gradient;
}

template Tensor<half, 4>
delta::launchThroughGates(Use &, const DeltaCall &,
                          const std::function<void(const Tensor<half, 4> &)> &);
template Tensor<bfloat16, 4>
delta::launchThroughGates(Use &, const DeltaCall &,
                          const std::function<void(const Tensor<bfloat16, 4> &)> &);
template Tensor<float, 4>
delta::launchThroughGates(Use &, const DeltaCall &,
                          const std::function<void(const Tensor<float, 4> &)> &);

void delta::completeGradients(KernelSpec &spec, const std::vector<std::string> &inputs) {
  spec.add_arguments({{"do: [B, T, Hv, V] like q", "gradient of o"},
                      {"dfinal_state?: [N, Hv, K, V] f32",
                       "gradient of final_state; zeros if left out",
                       {.stored = storedStates}}});
  spec.add_gradients(inputs);
  completeSpec(spec, "delta_rule_state_gradients", "delta_rule_gradients");
  spec.reference = deltaRuleBackwardReference;
  // As delta_rule, the gradients of the states are such sums again, and those of a gate's numbers
  // are sums over all steps of products of two of what was rounded.
  spec.factor = 6;
}

namespace {

void apply(Use &use) {
  const DeltaCall call(use, true);
  const GateNumbers strengths = strengthsOf(use.call), decays = decaysOf(use.call);
  const auto dbeta = gradientOf<3>(use, strengths), dg = gradientOf<3>(use, decays);
  const std::int64_t chunk = call.states.chunk;
  const bool corrects = call.states.corrects;
  const auto inverses = corrects ? use.workspace<float, 4>({call.slots, call.heads, chunk, chunk})
                                 : noTensor<float, 4>(),
             last = use.workspace<float, 4>({call.count, call.heads, call.k, call.v});
  for_dtype<half, bfloat16, float>(use.call.dtype("q"), [&]<class T>(T) {
    const auto q = use.tensor<T, 4>("q"), k = use.tensor<T, 4>("k");
    // The states before the chunks, and the gradients of those after them; what steps add, and its
    // gradients.
    const auto kept = use.workspace<Ranged<T>, 5>({2, call.slots, call.heads, call.k, call.v});
    const auto values =
        use.workspace<T, 5>({corrects ? 2 : 1, call.slots, call.heads, chunk, call.v});
    const auto added = oneOf(values, corrects ? 1 : 0);
    const auto reads = launchStates(use, call, use.tensor<T, 4>("dv"), oneOf(values, 0), inverses,
                                    oneOf(kept, 0), last);
    const auto output = launchThroughGates<T>(use, call, [&](const Tensor<T, 4> &o) {
      launchOutputs(use, call, oneOf(values, 0), oneOf(kept, 0), o, false);
    });
    use(outputGradients<T>, Grid(call.slots, call.heads), q, k, call.g, call.starts, output, added,
        call.scale, call.wide);
    use(stateGradients<T>, Grid(ceilDiv(call.v, call.states.columns), call.heads, call.count), q, k,
        call.g, call.starts, output, reads, use.tensor<float, 4>("dfinal_state"), added,
        oneOf(kept, 1), use.tensor<float, 4>("dinitial_state"), call.scale, call.states);
    const auto dq = use.tensor<T, 4>("dq"), dk = use.tensor<T, 4>("dk");
    const auto launchGradients = [&]<class Out>(const Tensor<Out, 4> &ofQueries,
                                                const Tensor<Out, 4> &ofKeys) {
      use(chunkGradients<T, Out>, Grid(call.slots, call.heads), q, k, use.tensor<T, 4>("v"),
          call.beta, call.g, call.starts, output, values, inverses, kept, ofQueries, ofKeys,
          use.tensor<T, 4>("dv"), dbeta, dg, call.scale, call.wide);
    };
    if (use.extent("Hk") == call.heads)
      return launchGradients(dq, dk);
    const auto shares =
        use.workspace<float, 5>({2, use.extent("B"), use.extent("T"), call.heads, call.k});
    launchGradients(oneOf(shares, 0), oneOf(shares, 1));
    use(sharedSums<T>, Grid(use.extent("B") * ceilDiv(use.extent("T"), chunk), use.extent("Hk")),
        shares, dq, dk, call.wide);
  });
  // Lengths of steps are of the same input.
  const bool ofSteps = strengths.form == GateForm::step;
  if (!ofSteps)
    launchGradients(use, strengths, dbeta);
  launchGradients(use, decays, dg, ofSteps ? dbeta : noTensor<float, 3>());
}

} // namespace

KernelSpec sectile::deltaRuleBackwardSpec() {
  KernelSpec spec;
  spec.name = "delta_rule_backward";
  spec.summary = "gradients of delta_rule";
  spec.add_arguments(inputs(DeltaForm{}));
  spec.add_options(delta::options(DeltaForm{}));
  completeGradients(spec,
                    {"q", "k", "v", "beta", "g", "A_log", "dt_bias", "D", "z", "initial_state"});
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const DType dtype = call.dtype("q");
    const bool isHalf = dtype != DType::float32 && hasMatrixUnits(target, dtype);
    const bool isWide = call.extent("K") > 128;
    // In bf16 all products are of warpgroups, which take 64 rows.
    if (dtype == DType::bfloat16 && isHalf && !isWide && call.extent("T") > 32)
      return Config{{"chunk", 64},
                    {"dv", stateColumns(call, 128, target)},
                    {"warps", 8},
                    {"columns", 32},
                    {"chunk_warps", 8}};
    return Config{{"chunk", isHalf && !isWide && call.extent("T") > 16 ? 32 : 16},
                  {"dv", isWide ? 16 : 32},
                  {"warps", 4},
                  {"columns", isWide ? 16 : 32},
                  {"chunk_warps", isHalf ? 8 : 4}};
  };
  spec.apply = apply;
  return spec;
}
