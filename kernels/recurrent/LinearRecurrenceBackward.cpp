// linear_recurrence_backward: by chunks, with the states before them computed once more. With e the
// gradient of the state after step t, from the last step on:
//   e <- e + scale q do^T, dq = scale h do, dk = e v, dv = e^T k, e <- d * e,
//   dgk = sum of e * (h before the step) over v's columns, dg = sum of dgk,
// derived from the forward formula. A NaN or an infinity in k, v, q or do may reach every step of
// its chunk.
#include "kernels/recurrent/Family.h"
#include "kernels/recurrent/LinearRecurrence.h"

using namespace sectile;
using namespace sectile::recurrence;

namespace {

// From the last chunk to the first: leaves the gradient of the state behind each.
template <class T, class U>
Kernel stateGradients{
    "linear_recurrence_state_gradients",
    [](View<const T, 4> q, View<const T, 4> output, View<const float, 3> g, View<const float, 4> gk,
       View<const float, 4> last, View<U, 5> gradients, View<float, 4> units,
       View<float, 4> initial, Float scale, const ChunkConfig &config) {
      const int chunk = config.chunk, width = config.width, dv = config.dv;
      auto column = program_id(0), head = program_id(1), batch = program_id(2);
      auto queries = q.at(batch, head).tile(chunk, width);
      auto outputs = output.at(batch, head).tile(chunk, dv);
      auto gradient = zeros<float>(width, dv);
      if (config.dfinal_state)
        gradient = last.at(batch, head).tile(width, dv).load(0, column);
      auto chunks = cdiv(q.extent(2), chunk);
      // As in the pass over the states.
      auto nextQuery = queries.load(chunks - 1, 0);
      auto nextOut = outputs.load(chunks - 1, column);
      for (auto step : range(0, chunks)) {
        auto number = chunks - 1 - step;
        auto query = nextQuery, out = nextOut;
        nextQuery = queries.load(number - 1, 0);
        nextOut = outputs.load(number - 1, column);
        keepState(gradients.at(batch, head, number), units.at(batch, head, number), column,
                  gradient, width, dv);
        auto decay = decayOf(g.at(batch, head), gk.at(batch, head), number, config);
        auto early = cast<T>(cast<float>(query) * decay.fromStart * scale);
        gradient = dot(trans(early), out, gradient * expand(decay.whole, 1), Precision::ieee);
      }
      if (config.initial_state)
        initial.at(batch, head).tile(width, dv).store(0, column, gradient);
    }};

// Sums over the steps before each, along axis 0.
Tile<float> sumBefore(const Tile<float> &x) { return cumsum(x, 0) - x; }

template <class T, class U>
Kernel gradients{
    "linear_recurrence_gradients",
    [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<const float, 3> g,
       View<const float, 4> gk, View<const T, 4> output, View<const U, 6> states,
       View<const float, 5> units, View<T, 4> dq, View<T, 4> dk, View<T, 4> dv, View<float, 3> dg,
       View<float, 4> dgk, Float scale, const ChunkConfig &config) {
      const int chunk = config.chunk, width = config.width, columns = config.dv;
      auto number = program_id(0), head = program_id(1), batch = program_id(2);
      auto query = q.at(batch, head).tile(chunk, width).load(number, 0);
      auto key = k.at(batch, head).tile(chunk, width).load(number, 0);
      auto values = v.at(batch, head).tile(chunk, columns);
      auto outputs = output.at(batch, head).tile(chunk, columns);
      const KeptState<U> state{states.at(0).at(batch, head, number),
                               units.at(0).at(batch, head, number)},
          gradient{states.at(1).at(batch, head, number), units.at(1).at(batch, head, number)};
      auto ownG = g.at(batch, head);
      auto ownGk = gk.at(batch, head);
      auto decay = decayOf(ownG, ownGk, number, config);

      // What needs all of Dv: gradients of the scores, of queries by the state before the chunk, of
      // keys by the state behind it, and what the two states have in common.
      auto scoreGradients = zeros<float>(chunk, chunk);
      auto dQuery = zeros<float>(chunk, width), dKey = zeros<float>(chunk, width);
      auto both = zeros<float>(width);
      // Gradients of decays are float.
      const bool finer = config.g || config.gk;
      const Precision precision =
          finer && statePrecision<T> == Precision::tf32 ? Precision::tf32x3 : statePrecision<T>;
      for (auto column : range(0, cdiv(v.extent(3), columns))) {
        auto value = values.load(number, column), out = outputs.load(number, column);
        auto before = state.load(column, width, columns),
             behind = gradient.load(column, width, columns);
        scoreGradients = dot(out, trans(value), scoreGradients, Precision::ieee);
        if constexpr (std::same_as<U, float>) {
          dQuery = dot(cast<float>(out), trans(before), dQuery, precision);
          dKey = dot(cast<float>(value), trans(behind), dKey, precision);
          both += sum(before * behind, 1);
        } else {
          const auto none = zeros<float>(chunk, width);
          dQuery += dot(out, trans(before), none, Precision::ieee) * state.unit(column);
          dKey += dot(value, trans(behind), none, Precision::ieee) * gradient.unit(column);
        }
      }
      dQuery *= decay.fromStart * scale;
      dKey *= decay.toEnd;
      scoreGradients *= scale;

      auto wideQuery = cast<float>(query), wideKey = cast<float>(key);
      auto i = expand(arange(0, chunk), 1), j = expand(arange(0, chunk), 0);
      // A step's decay weighs on what passes it: from the state before the chunk or an earlier step
      // to the step itself, a later one, or the state behind the chunk.
      auto scores = zeros<float>(chunk, chunk);
      if (config.gk) {
        auto logs = cumsum(wideQuery * dQuery, 0, true) + sumBefore(wideKey * dKey) +
                    expand(decay.whole * both, 0);
        forEachStep(k.at(batch, head), ownG, ownGk, number, config,
                    [&](auto step, auto ownKey, auto ownDecay) {
                      auto weight = expand(sum(where(j == step, scoreGradients, 0.0f), 1), 1);
                      auto fromKey = ownKey * ownDecay;
                      auto pairs = wideQuery * fromKey;
                      scores = where(j == step, expand(sum(pairs, 1), 1), scores);
                      dQuery += weight * fromKey;
                      auto own = expand(sum(weight * wideQuery * ownDecay, 0), 0);
                      dKey += where(i == step, own, 0.0f);
                      logs += where(i > step, cumsum(weight * pairs, 0, true), 0.0f);
                    });
        dgk.at(batch, head).tile(chunk, width).store(number, 0, logs);
        if (config.g)
          dg.at(batch, head).tile(chunk).store(number, sum(logs, 1));
      } else {
        auto decays = pairwise(ownG, number, config);
        auto products = dot(query, trans(key), scores, Precision::ieee);
        scores = products * decays;
        auto weights = scoreGradients * decays;
        if (config.g) {
          auto passing = cumsum(where(i > j, weights * products, 0.0f), 0, true);
          auto logs = sum(where(i > j, passing, 0.0f), 1) +
                      cumsum(sum(wideQuery * dQuery, 1), 0, true) +
                      sumBefore(sum(wideKey * dKey, 1)) + decay.whole * sum(both, 0);
          dg.at(batch, head).tile(chunk).store(number, logs);
        }
        auto rounded = cast<T>(weights);
        dQuery = dot(rounded, key, dQuery, Precision::ieee);
        dKey = dot(trans(rounded), query, dKey, Precision::ieee);
      }
      dq.at(batch, head).tile(chunk, width).store(number, 0, dQuery);
      dk.at(batch, head).tile(chunk, width).store(number, 0, dKey);

      auto weights = cast<T>(scores * scale);
      auto late = wideKey * decay.toEnd;
      for (auto column : range(0, cdiv(v.extent(3), columns))) {
        auto result = zeros<float>(chunk, columns);
        auto behind = gradient.load(column, width, columns);
        if constexpr (std::same_as<U, float>)
          result = dot(late, behind, result, statePrecision<T>);
        else
          result = dot(cast<U>(late), behind, result, Precision::ieee) * gradient.unit(column);
        result = dot(trans(weights), outputs.load(number, column), result, Precision::ieee);
        dv.at(batch, head).tile(chunk, columns).store(number, column, result);
      }
    }};

} // namespace

KernelSpec sectile::linearRecurrenceBackwardSpec() {
  KernelSpec spec = commonSpec("linear_recurrence_backward", "gradients of linear_recurrence");
  spec.add_arguments(
      {{"do: [B, H, T, Dv] like q", "gradient of o"},
       {"dfinal_state?: [B, H, Dk, Dv] f32", "gradient of final_state; zeros if left out"}});
  spec.add_gradients({"q", "k", "v", "g", "gk", "initial_state"});
  spec.config = {{"chunk", "steps of one chunk"},
                 {"dv", "columns of v at once"},
                 {"warps", "warps of one program"}};
  spec.reference = linearRecurrenceBackwardReference;
  spec.factor = 3;
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const std::int64_t width = widthOf(call);
    const bool half =
        call.tensors[0].dtype != DType::float32 && hasMatrixUnits(target, call.tensors[0].dtype);
    if (call.has("gk") || width > 128 || !half)
      return Config{{"chunk", 16}, {"dv", width > 128 ? 16 : 32}, {"warps", 4}};
    // States are most of what is moved: the longer the chunks, the fewer.
    return Config{{"chunk", 64}, {"dv", 32}, {"warps", 8}};
  };
  spec.spaces = {
      {.part = "linear_recurrence_gradients",
       .axes = {{"chunk", {16, 32, 64}}, {"dv", {16, 32, 64}}, {"warps", {4, 8}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t threads = config.at("warps") * warpSize(target),
                            chunk = config.at("chunk"), dv = config.at("dv");
         const std::int64_t numbers =
             (widthOf(call) * (2 * dv + 3 * chunk) + chunk * (2 * chunk + dv)) / threads;
         return numbers <= 200 && (!call.has("gk") || chunk <= 32);
       }}};
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    const ChunkConfig chosen = chunkConfig(use);
    // The pass over the states is the forward kernel's.
    ChunkConfig forward = chosen;
    forward.dfinal_state = false;
    const std::int64_t b = call.extent("B"), h = call.extent("H"), dk = call.extent("Dk"),
                       dv = call.extent("Dv"), columns = ceilDiv(dv, chosen.dv),
                       chunks = ceilDiv(call.extent("T"), chosen.chunk);
    const auto g = timed<float, 3>(use, "g"), dg = timed<float, 3>(use, "dg");
    const auto gk = timed<float, 4>(use, "gk"), dgk = timed<float, 4>(use, "dgk");
    const auto last = use.workspace<float, 4>({b, h, dk, dv});
    for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
      const auto q = timed<T, 4>(use, "q"), k = timed<T, 4>(use, "k"), v = timed<T, 4>(use, "v"),
                 output = timed<T, 4>(use, "do");
      const float scale = scaleOf(call);
      auto withStates = [&]<class U>(U) {
        // The states before the chunks, and the gradients of those behind them.
        const auto states = use.workspace<U, 6>({2, b, h, chunks, dk, dv});
        const auto units = use.workspace<float, 5>({2, b, h, chunks, columns});
        use(statesKernel<T, U>, Grid(columns, h, b), k, v, g, gk,
            use.tensor<float, 4>("initial_state"), oneOf(states, 0), oneOf(units, 0), last,
            forward);
        use(stateGradients<T, U>, Grid(columns, h, b), q, output, g, gk,
            use.tensor<float, 4>("dfinal_state"), oneOf(states, 1), oneOf(units, 1),
            use.tensor<float, 4>("dinitial_state"), scale, chosen);
        use(gradients<T, U>, Grid(chunks, h, b), q, k, v, g, gk, output, states, units,
            timed<T, 4>(use, "dq"), timed<T, 4>(use, "dk"), timed<T, 4>(use, "dv"), dg, dgk, scale,
            chosen);
      };
      // Gradients of decays, which are float, need states as exact.
      if constexpr (std::same_as<T, half>)
        if (!chosen.g && !chosen.gk)
          return withStates(half());
      withStates(float());
    });
  };
  return spec;
}
