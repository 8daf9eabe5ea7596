// Gradients of causal_conv1d. With s the sums before the activation and e[t] = dy[t]
// activation'(s[t]):
//   dx[t] = sum over j of w[W - 1 - j] e[t + j], dw[W - 1 - j] = sum over t of e[t] x[t - j],
//   db = sum of e, within each sequence; what comes before it counts as x there, and gets its
//   gradient alike. dfinal_state is added where its inputs come from.
// The sums are computed again. A program does many tiles of steps, with its part of dw and db in
// registers; a second launch adds the programs' parts in order.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/conv/CausalConv.h"
#include "kernels/conv/Family.h"
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
template <class T>
SECTILE_STRUCT(CausalConvBackwardArguments<T>, x, w, b, initial_state, cu_seqlens, dy, dfinal_state,
               dx, parts, dinitial_state)

// e of the tokens `shift` later, 0 where there are none; `values` are at(-C) and those after.
template <class T>
Tile<float> sumGradients(const Window<T> &window, const View<const T, 2> &dy,
                         const std::vector<Tile<T>> &values, int shift,
                         const std::vector<Tile<float>> &taps, const Tile<float> &bias) {
  const ConvConfig &config = window.config;
  auto gradient = cast<float>(
      dy.tile(window.tokens(), config.d).load_at(window.base + shift, window.column * config.d));
  if (config.silu) {
    const auto sums = window.sums(values, config.width - 1, shift, taps, bias);
    gradient = gradient * sigmoid(sums) * (1.0f + sums * sigmoid(-sums));
  }
  return where(expand(window.isInside(shift), 1), gradient, 0.0f);
}

template <class T>
Kernel causalConvGradients{
    "causal_conv1d_backward",
    [](const CausalConvBackwardArguments<T> &a, const ConvConfig &config) {
      const Int column = program_id(0), program = program_id(1);
      const int width = config.width, before = width - 1;
      const auto taps = tapsOf(a.w, column, config);
      const auto bias = biasOf(a.b, column, config);
      const Int length = a.x.extent(1), tiles = cdiv(length, config.t);
      std::vector<Tile<float>> sums(static_cast<std::size_t>(width + 1),
                                    zeros<float>(config.t, config.d));
      for (auto tile : range(program, tiles * a.x.extent(0), num_programs(1))) {
        const Int batch = tile / tiles, base = tile % tiles * config.t,
                  token = base + arange(0, config.t);
        const auto [number, first, end] =
            sequencesOf(a.cu_seqlens, token, batch, length, config.packed);
        const Window<T> window{a.x.at(batch), a.initial_state, base,   token, first,
                               end,           number,          column, config};
        std::vector<Tile<T>> values;
        for (int shift = -before; shift <= before; ++shift)
          values.push_back(window.at(shift));
        auto result = zeros<float>(config.t, config.d);
        for (int back = 0; back <= before; ++back) {
          const auto own = sumGradients(window, a.dy.at(batch), values, back, taps, bias);
          result = result + own * taps[static_cast<std::size_t>(before - back)];
          if (back == 0) {
            for (int tap = 0; tap < width; ++tap)
              sums[static_cast<std::size_t>(tap)] =
                  sums[static_cast<std::size_t>(tap)] +
                  own * cast<float>(values[static_cast<std::size_t>(tap)]);
            sums.back() = sums.back() + own;
          }
        }
        if (config.given)
          result = result + cast<float>(statesAt(a.dfinal_state, where(token < end, number, -1),
                                                 token - end + before, column, config));
        a.dx.at(batch).tile(config.t, config.d).store_at(base, column * config.d, result);
      }
      for (int which = 0; which <= width; ++which)
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
      const auto taps = tapsOf(a.w, column, config);
      const auto bias = biasOf(a.b, column, config);
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
        own.push_back(sumGradients(window, a.dy.at(batch), values, step, taps, bias));
      for (int place = 0; place < before; ++place) {
        auto result = zeros<float>(1, config.d);
        for (int step = 0; step <= place; ++step)
          result = result + own[static_cast<std::size_t>(step)] *
                                taps[static_cast<std::size_t>(place - step)];
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
SECTILE_CONFIG(CausalConvSumsConfig, d, rows, warps, width, b)

template <class T> struct CausalConvSumsArguments {
  View<const float, 3> parts;
  View<T, 2> dw;
  View<T, 1> db;
};
template <class T>
SECTILE_STRUCT(CausalConvSumsArguments<T>, parts, dw, db)

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
       boundaries(),
       {"dy: [B, T, D] like x", "gradient of y"},
       {"dfinal_state?: [N, D, C] like x", "gradient of final_state; 0 if left out"}});
  spec.add_gradients({"x", "w", "b", "initial_state"});
  configure(spec);
  spec.reference = causalConvBackwardReference;
  spec.factor = 3;
  spec.neutral = {};
  spec.config.push_back({"programs", "programs that share the steps"});
  spec.defaults = [](const Invocation &call, const std::string &target) {
    // Few numbers for a thread, which has those of 2 W - 1 steps and more sums.
    const std::int64_t t = std::clamp<std::int64_t>(powerAtLeast(call.extent("T")), 1, 4),
                       d = std::clamp<std::int64_t>(powerAtLeast(call.extent("D")), 16, 128),
                       warps = powerAtMost(
                           std::clamp<std::int64_t>(t * d / (4 * warpSize(target)), 1, 4)),
                       tiles = call.extent("B") * ceilDiv(call.extent("T"), t),
                       columns = std::max<std::int64_t>(ceilDiv(call.extent("D"), d), 1);
    const std::int64_t most =
        std::max<std::int64_t>(multiprocessors(target) * 16 / (warps * columns), 1);
    return Config{{"t", t},
                  {"d", d},
                  {"warps", warps},
                  {"programs", std::clamp<std::int64_t>(std::min(tiles, most), 1, 1024)}};
  };
  spec.spaces = {{.part = spec.name,
                  .axes = {{"t", {4, 8, 16, 32}},
                           {"d", {32, 64, 128}},
                           {"warps", {1, 2, 4, 8}},
                           {"programs", {8, 16, 32, 64, 128, 256}}},
                  .where = tilesWithin({"t", "d"}, 2, 16, {{"d", 32, "D"}})}};
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
