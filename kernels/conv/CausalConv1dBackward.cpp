// Gradients of causal_conv1d. With s the sums before the activation and e[t] = dy[t]
// activation'(s[t]):
//   dx[t] = sum over j of w[W - 1 - j] e[t + j], dw[W - 1 - j] = sum over t of e[t] x[t - j],
//   db = sum of e, within each sequence; what comes before it counts as x there, and gets its
//   gradient alike. dfinal_state is added where its inputs come from.
// The sums are computed again. A program does many tiles of steps, with its part of dw and db in
// registers; a second launch adds the programs' parts in order.
#include "kernels/conv/CausalConv.h"
#include "kernels/conv/Family.h"
#include "kernels/registry/Contents.h"
#include <algorithm>

using namespace sectile;
using namespace sectile::causal;

namespace {

template <class T> struct CausalConvBackwardArguments {
  View<const T, 3> x;
  View<const T, 2> w;
  View<const T, 1> b;
  View<const T, 3> initial_state;
  View<const std::int32_t, 1> cu_seqlens;
  View<const T, 3> dy, dfinal_state;
  View<T, 3> dx;
  View<float, 3> parts; // [W + 1, programs, D], of dw and db
  View<T, 3> dinitial_state;
};

// e of steps with these gradients of y, whose first taps are on values[first].
template <class T>
Tile<float> sumGradient(const Tile<T> &dy, const std::vector<Tile<T>> &values, int first,
                        const Weights &weights, const ConvConfig &config) {
  const auto gradient = cast<float>(dy);
  if (!config.silu)
    return gradient;
  const auto sum = sumOf(values, first, weights), part = logisticOf<T>(sum);
  // Beside 1 the rest of a 16-bit part may be inexact.
  const auto rest = sizeof(T) == 2 ? 1.0f - part : logisticOf<T>(-sum);
  return gradient * fma(sum * part, rest, part);
}

// e of the tokens `shift` later, 0 where there are none; `values` are at(-C) and those after.
template <class T>
Tile<float> sumGradientAt(const Window<T> &window, const View<const T, 2> &dy,
                          const std::vector<Tile<T>> &values, int shift, const Weights &weights) {
  const ConvConfig &config = window.config;
  const auto gradient =
      dy.tile(window.tokens(), config.d).load_at(window.base + shift, window.column * config.d);
  return where(expand(window.isInside(shift), 1),
               sumGradient(gradient, values, shift, weights, config), 0.0f);
}

// Sums over steps, for dw by taps and, last, db.
using Sums = std::vector<Tile<float>>;

// `values` are the inputs under the taps, from values[first] on.
template <class T>
void addTo(Sums &sums, const Tile<float> &own, const std::vector<Tile<T>> &values, int first) {
  for (std::size_t tap = 0; tap + 1 < sums.size(); ++tap)
    sums[tap] = sums[tap] + own * cast<float>(values[static_cast<std::size_t>(first) + tap]);
  sums.back() = sums.back() + own;
}

// own[first] and those of the steps behind it.
Tile<float> inputGradient(const std::vector<Tile<float>> &own, int first, const Weights &weights) {
  const std::size_t width = weights.taps.size();
  auto result = own[static_cast<std::size_t>(first)] * weights.taps[width - 1];
  for (std::size_t back = 1; back < width; ++back)
    result = result + own[static_cast<std::size_t>(first) + back] * weights.taps[width - 1 - back];
  return result;
}

// All of one sequence, with what is before and behind them.
template <class T>
void addRuns(const Runs &runs, const View<const T, 2> &x, const View<const T, 2> &dy,
             const Weights &weights, const View<T, 2> &dx, Sums &sums) {
  const ConvConfig &config = runs.config;
  const int before = config.width - 1;
  std::vector<Tile<T>> values, gradients;
  for (int step = -before; step < config.run + before; ++step)
    values.push_back(runs.load(x, step));
  for (int step = 0; step < config.run + before; ++step)
    gradients.push_back(runs.load(dy, step));
  std::vector<Tile<float>> own;
  std::vector<Tile<T>> results;
  for (int step = 0; step < config.run + before; ++step) {
    own.push_back(
        sumGradient(gradients[static_cast<std::size_t>(step)], values, step, weights, config));
    if (step < config.run)
      addTo(sums, own.back(), values, step);
    if (step >= before)
      results.push_back(cast<T>(inputGradient(own, step - before, weights)));
  }
  runs.store(dx, results);
}

// Any, of several sequences and with states.
template <class T>
void addWindow(const Window<T> &window, const CausalConvBackwardArguments<T> &a, const Int &batch,
               const Int &number, const Weights &weights, Sums &sums) {
  const ConvConfig &config = window.config;
  const int before = config.width - 1;
  std::vector<Tile<T>> values;
  for (int shift = -before; shift <= before; ++shift)
    values.push_back(window.at(shift));
  std::vector<Tile<float>> own;
  for (int shift = 0; shift <= before; ++shift)
    own.push_back(sumGradientAt(window, a.dy.at(batch), values, shift, weights));
  addTo(sums, own[0], values, 0);
  auto result = inputGradient(own, 0, weights);
  if (config.given)
    result =
        result + cast<float>(statesAt(a.dfinal_state, where(window.token < window.end, number, -1),
                                      window.token - window.end + before, window.column, config));
  a.dx.at(batch)
      .tile(window.tokens(), config.d)
      .store_at(window.base, window.column * config.d, result);
}

template <class T>
Kernel causalConvGradients{
    "causal_conv1d_backward",
    [](const CausalConvBackwardArguments<T> &a, const ConvConfig &config) {
      const Int column = program_id(0), program = program_id(1);
      const int before = config.width - 1, rows = config.t / config.run;
      const Weights weights = weightsOf(a.w, a.b, column, config);
      const Int length = a.x.extent(1), tiles = cdiv(length, config.t);
      Sums sums(static_cast<std::size_t>(config.width + 1), zeros<float>(rows, config.d));
      for (auto tile : range(program, tiles * a.x.extent(0), num_programs(1))) {
        const Int batch = tile / tiles, part = tile % tiles, base = part * config.t;
        const auto x = a.x.at(batch);
        const auto sequences = [&](const Int &token) {
          return sequencesOf(a.cu_seqlens, token, batch, length, config.packed);
        };
        const auto own = sequences(expand(base, 0));
        // What a view has before its first step is 0.
        const int needed = config.packed || config.state ? before : 0;
        const Bool isOne = own.first <= base - needed && own.end >= base + (config.t + before);
        when(
            squeeze(isOne, 0),
            [&] {
              addRuns(Runs{part, column, config}, x, a.dy.at(batch), weights, a.dx.at(batch), sums);
            },
            [&] {
              for (auto step : range(0, config.run)) {
                const Int from = base + step * rows, token = from + arange(0, rows);
                const auto [number, first, end] = sequences(token);
                addWindow(
                    Window<T>{x, a.initial_state, from, token, first, end, number, column, config},
                    a, batch, number, weights, sums);
              }
            });
      }
      for (int which = 0; which <= config.width; ++which)
        a.parts.at(which, program)
            .tile(config.d)
            .store(column, sum(sums[static_cast<std::size_t>(which)], 0));
    }};

// Of what comes before one sequence: place m is step m - C of it.
template <class T>
Kernel causalConvStateGradients{
    "causal_conv1d_state_gradients",
    [](const CausalConvBackwardArguments<T> &a, const ConvConfig &config) {
      const Int column = program_id(0), sequence = program_id(1);
      const int before = config.width - 1;
      const Weights weights = weightsOf(a.w, a.b, column, config);
      const Int batch = config.packed ? Int(0) : sequence;
      Int first = 0, end = a.x.extent(1);
      if (config.packed) {
        first = boundary(a.cu_seqlens, sequence);
        end = boundary(a.cu_seqlens, sequence + 1);
      }
      const auto one = [](const Int &number) { return expand(number, 0); };
      const Window<T> window{a.x.at(batch), a.initial_state, first,  one(first), one(first),
                             one(end),      one(sequence),   column, config};
      std::vector<Tile<T>> values;
      for (int shift = -before; shift < before; ++shift)
        values.push_back(window.at(shift));
      std::vector<Tile<float>> own;
      for (int step = 0; step < before; ++step)
        own.push_back(sumGradientAt(window, a.dy.at(batch), values, step, weights));
      for (int place = 0; place < before; ++place) {
        auto result = zeros<float>(1, config.d);
        for (int step = 0; step <= place; ++step)
          result = result + own[static_cast<std::size_t>(step)] *
                                weights.taps[static_cast<std::size_t>(place - step)];
        // A short sequence keeps some of it.
        if (config.given)
          result = result + cast<float>(statesAt(a.dfinal_state, one(sequence),
                                                 one(first - end + place), column, config));
        a.dinitial_state.at(sequence).tile(config.d, 1).store(column, place, trans(result));
      }
    }};

struct CausalConvSumsConfig {
  int d = 32, rows = 32, warps = 4;
  int width = 4;
  bool b = false;
};

template <class T> struct CausalConvSumsArguments {
  View<const float, 3> parts;
  View<T, 2> dw;
  View<T, 1> db;
};

template <class T>
Kernel causalConvSums{"causal_conv1d_sums",
                      [](const CausalConvSumsArguments<T> &a, const CausalConvSumsConfig &config) {
                        const Int column = program_id(0), which = program_id(1);
                        const auto from = a.parts.at(which).tile(config.rows, config.d);
                        auto total = zeros<float>(config.rows, config.d);
                        for (auto block : range(0, cdiv(a.parts.extent(1), config.rows)))
                          total += from.load(block, column);
                        const auto result = sum(total, 0);
                        when(
                            which < config.width,
                            [&] { a.dw.tile(config.d, 1).store(column, which, expand(result, 1)); },
                            [&] {
                              if (config.b)
                                a.db.tile(config.d).store(column, result);
                            });
                      }};

} // namespace

KernelSpec sectile::causalConv1dBackwardSpec() {
  KernelSpec spec;
  spec.name = "causal_conv1d_backward";
  spec.summary = "gradients of causal_conv1d";
  addInputs(spec);
  spec.add_arguments(
      {{"initial_state?: [N, D, C] like x", "as in causal_conv1d"},
       packedArgument("ends"),
       {"dy: [B, T, D] like x", "gradient of y"},
       {"dfinal_state?: [N, D, C] like x", "gradient of final_state; 0 if left out"}});
  spec.add_gradients({"x", "w", "b", "initial_state"});
  configure(spec);
  spec.reference = causalConvBackwardReference;
  spec.factor = 3;
  spec.neutral = {};
  spec.config.push_back({"programs", "programs that share the steps"});
  spec.defaults = [](const Invocation &call, const std::string &target) {
    // A thread loads 16 bytes of a step: with fewer, each channel's loads would be single ones. Its
    // sums and the steps around its own take all registers that a thread may have.
    const std::int64_t steps = powerAtLeast(std::max<std::int64_t>(call.extent("T"), 1)),
                       d = std::clamp<std::int64_t>(powerAtLeast(call.extent("D")), 16, 128),
                       warp = 16 / static_cast<std::int64_t>(size_of(call.dtype("x"))) *
                              warpSize(target),
                       run = std::min<std::int64_t>(steps, 8),
                       rows = std::clamp<std::int64_t>(2 * warp / d, 1, steps / run),
                       t = run * rows, warps = std::clamp<std::int64_t>(rows * d / warp, 1, 2),
                       tiles = call.extent("B") * ceilDiv(call.extent("T"), t),
                       columns = std::max<std::int64_t>(ceilDiv(call.extent("D"), d), 1);
    const std::int64_t most =
        std::max<std::int64_t>(multiprocessors(target) * 8 / (warps * columns), 1);
    return Config{{"t", t},
                  {"d", d},
                  {"run", run},
                  {"warps", warps},
                  {"programs", std::clamp<std::int64_t>(std::min(tiles, most), 1, 1024)}};
  };
  spec.spaces = {{.part = spec.name,
                  .axes = {{"t", {4, 8, 16, 32, 64, 128}},
                           {"d", {32, 64, 128, 256}},
                           {"run", {4, 8, 16}},
                           {"warps", {1, 2, 4, 8}},
                           {"programs", {8, 16, 32, 64, 128, 256}}},
                  .where = runsWithin(8, {{"d", 32, "D"}})}};
  spec.apply = [](Use &use) {
    ConvConfig config = configOf(use, "initial_state");
    config.given = use.has("dfinal_state");
    const std::int64_t channels = use.extent("D"), columns = ceilDiv(channels, config.d),
                       steps = use.extent("B") * use.extent("T"),
                       parts = steps ? use.field("programs") : 0;
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      const auto sums = use.workspace<float, 3>({config.width + 1, parts, channels});
      use(causalConvGradients<T>, Grid(columns, parts), config,
          {{"parts", sums}, {"dinitial_state", noTensor<T, 3>()}});
      if (config.state)
        use(causalConvStateGradients<T>, Grid(columns, use.extent("N")), config, {{"parts", sums}});
      const CausalConvSumsConfig adding{.width = config.width, .b = config.b};
      use(causalConvSums<T>, Grid(ceilDiv(channels, adding.d), config.width + 1), adding,
          {{"parts", sums}});
    });
  };
  return spec;
}
