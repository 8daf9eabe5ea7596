// causal_conv1d: a convolution of each channel along time that sees no later step,
//   y[t] = activation(b + sum over j of w[W - 1 - j] x[t - j]), j from 0 to W - 1,
// of sequences of one length or packed; what comes before a sequence is its initial state, or 0,
// and final_state has its last W - 1 inputs. causal_conv1d_update is the same with the states in a
// pool, where it leaves the new ones. In f32, rounded once. CausalConv.cpp says what is refused.
#include "kernels/conv/CausalConv.h"
#include "kernels/conv/Family.h"
#include "kernels/references/Sample.h"
#include "kernels/registry/Contents.h"
#include <algorithm>

using namespace sectile;
using namespace sectile::causal;

namespace {

template <class T> struct CausalConvArguments {
  View<const T, 3> x;
  View<const T, 2> w;
  View<const T, 1> b;
  View<const T, 3> initial_state;
  View<const std::int32_t, 1> cu_seqlens;
  View<T, 3> y, final_state;
  Int tiles; // of tokens, in front of the programs for final states
};

// y of a step whose first tap is on values[first].
template <class T>
Tile<float> outputOf(const std::vector<Tile<T>> &values, int first, const Weights &weights,
                     const ConvConfig &config) {
  const auto sum = sumOf(values, first, weights);
  return config.silu ? sum * logisticOf<T>(sum) : sum;
}

// Any steps, of several sequences and with states; 0 where they are not wanted.
template <class T>
void convolve(const Window<T> &window, const Weights &weights, const View<T, 2> &y,
              const Bool &isWanted) {
  const ConvConfig &config = window.config;
  std::vector<Tile<T>> values;
  for (int shift = 1 - config.width; shift <= 0; ++shift)
    values.push_back(window.at(shift));
  const auto result = outputOf(values, 0, weights, config);
  y.tile(window.tokens(), config.d)
      .store_at(window.base, window.column * config.d,
                where(expand(isWanted, 1), result, zeros_like(result)));
}

// All of one sequence, with what is before them.
template <class T>
void convolveRuns(const Runs &runs, const View<const T, 2> &x, const Weights &weights,
                  const View<T, 2> &y) {
  const ConvConfig &config = runs.config;
  std::vector<Tile<T>> values;
  for (int step = 1 - config.width; step < config.run; ++step)
    values.push_back(runs.load(x, step));
  std::vector<Tile<T>> outputs;
  for (int step = 0; step < config.run; ++step)
    outputs.push_back(cast<T>(outputOf(values, step, weights, config)));
  runs.store(y, outputs);
}

// A program's steps of a batch. The state of sequence `number` is row rowOf(number), for each token
// or one; y is 0 where that is negative.
template <class T, class RowOf>
void convolveTile(const View<const T, 2> &x, const Weights &weights, const View<T, 2> &y,
                  const View<const T, 3> &state, const View<const std::int32_t, 1> &bounds,
                  const Runs &runs, const Int &batch, RowOf rowOf) {
  const ConvConfig &config = runs.config;
  // What a view has before its first step is 0.
  if (!config.packed && !config.state)
    return convolveRuns(runs, x, weights, y);
  const Int base = runs.part * config.t;
  const auto sequences = [&](const Int &token) {
    return sequencesOf(bounds, token, batch, x.extent(0), config.packed);
  };
  const auto own = sequences(expand(base, 0));
  const Bool isOne = own.first <= base - (config.width - 1) &&
                     own.end >= minimum(base + config.t, x.extent(0)) && rowOf(own.number) >= 0;
  when(
      squeeze(isOne, 0), [&] { convolveRuns(runs, x, weights, y); },
      [&] {
        for (auto step : range(0, config.run)) {
          const Int from = base + step * runs.rows(), token = from + arange(0, runs.rows());
          const auto [number, first, end] = sequences(token);
          const Int row = rowOf(number);
          convolve(Window<T>{x, state, from, token, first, end, row, runs.column, config}, weights,
                   y, row >= 0);
        }
      });
}

// Of one sequence: its last inputs.
template <class T>
Window<T> lastOf(const View<const T, 2> &x, const View<const T, 3> &state,
                 const View<const std::int32_t, 1> &bounds, const Int &sequence, const Int &row,
                 const Int &column, const ConvConfig &config) {
  Int first = 0, end = x.extent(0);
  if (config.packed) {
    first = boundary(bounds, sequence);
    end = boundary(bounds, sequence + 1);
  }
  const auto one = [](const Int &number) { return expand(number, 0); };
  return {x, state, end, one(end), one(first), one(end), one(row), column, config};
}

template <class T>
Kernel causalConv{"causal_conv1d", [](const CausalConvArguments<T> &a, const ConvConfig &config) {
                    const Int column = program_id(0), part = program_id(1), batch = program_id(2);
                    when(
                        part < a.tiles,
                        [&] {
                          convolveTile(a.x.at(batch), weightsOf(a.w, a.b, column, config),
                                       a.y.at(batch), a.initial_state, a.cu_seqlens,
                                       Runs{part, column, config}, batch,
                                       [](const Int &number) { return number; });
                        },
                        [&] {
                          const Int sequence = config.packed ? part - a.tiles : batch;
                          const auto window = lastOf(a.x.at(batch), a.initial_state, a.cu_seqlens,
                                                     sequence, sequence, column, config);
                          const auto to = a.final_state.at(sequence).tile(config.d, 1);
                          for (int i = 0; i + 1 < config.width; ++i)
                            to.store(column, i, trans(window.at(i + 1 - config.width)));
                        });
                  }};

template <class T> struct CausalConvUpdateArguments {
  View<const T, 3> x;
  View<const T, 2> w;
  View<const T, 1> b;
  View<const std::int32_t, 1> cu_seqlens, indices;
  View<T, 3> y, state_out;
};

// Rows of the pool of these sequences; negative where there is none.
template <class T>
Int rowsOf(const CausalConvUpdateArguments<T> &a, const Int &sequence, const ConvConfig &config) {
  const Int rows = a.state_out.extent(0);
  Int row = sequence;
  if (config.indexed)
    row = cast<Index>(load(a.indices.ptr() + cast<std::int64_t>(sequence) * a.indices.stride(0),
                           sequence < a.indices.extent(0), -1));
  return where(row < rows, row, -1);
}

// All were read before one is written: a short sequence moves what its state had.
template <class T>
void storeState(const View<T, 2> &state, const Int &column, const std::vector<Tile<T>> &inputs,
                const ConvConfig &config) {
  barrier();
  for (int i = 0; i + 1 < config.width; ++i)
    state.tile(config.d, 1).store(column, i, trans(inputs[static_cast<std::size_t>(i)]));
}

template <class T>
void updatePool(const CausalConvUpdateArguments<T> &a, const Int &sequence, const Int &column,
                const ConvConfig &config) {
  const Int row = rowsOf(a, sequence, config);
  when(row >= 0, [&] {
    const auto window =
        lastOf(a.x.at(config.packed ? Int(0) : sequence), View<const T, 3>(a.state_out),
               a.cu_seqlens, sequence, row, column, config);
    std::vector<Tile<T>> inputs;
    for (int shift = 1 - config.width; shift < 0; ++shift)
      inputs.push_back(window.at(shift));
    storeState(a.state_out.at(row), column, inputs, config);
  });
}

// One step of a sequence, whose state is this row of the pool.
template <class T>
void updateStep(const View<const T, 2> &x, const Weights &weights, const View<T, 2> &y,
                const View<T, 3> &states, const Int &row, const Int &column,
                const ConvConfig &config) {
  const auto to = y.tile(1, config.d);
  when(
      row >= 0,
      [&] {
        const auto state = states.at(row).tile(config.d, 1);
        std::vector<Tile<T>> inputs;
        for (int i = 0; i + 1 < config.width; ++i)
          inputs.push_back(trans(state.load(column, i)));
        inputs.push_back(x.tile(1, config.d).load(0, column));
        to.store(0, column, outputOf(inputs, 0, weights, config));
        for (int i = 0; i + 1 < config.width; ++i)
          state.store(column, i, trans(inputs[static_cast<std::size_t>(i) + 1]));
      },
      [&] { to.store(0, column, zeros<float>(1, config.d)); });
}

// A sequence that one program holds may get its new state there; those of others follow in a launch
// of their own, when nobody needs the old ones any more.
template <class T>
Kernel causalConvUpdate{
    "causal_conv1d_update", [](const CausalConvUpdateArguments<T> &a, const ConvConfig &config) {
      const Int column = program_id(0), part = program_id(1), batch = program_id(2);
      const auto x = a.x.at(batch);
      const auto y = a.y.at(batch);
      const Weights weights = weightsOf(a.w, a.b, column, config);
      const auto rowOf = [&](const Int &number) { return rowsOf(a, number, config); };
      if (config.whole && config.t == 1)
        return updateStep(x, weights, y, a.state_out, rowOf(batch), column, config);
      convolveTile(x, weights, y, View<const T, 3>(a.state_out), a.cu_seqlens,
                   Runs{part, column, config}, batch, rowOf);
      if (config.whole)
        updatePool(a, batch, column, config);
    }};
template <class T>
Kernel causalConvStates{"causal_conv1d_states",
                        [](const CausalConvUpdateArguments<T> &a, const ConvConfig &config) {
                          updatePool(a, program_id(1), program_id(0), config);
                        }};

} // namespace

KernelSpec sectile::causalConv1dSpec() {
  KernelSpec spec;
  spec.name = "causal_conv1d";
  spec.summary = "convolution of each channel along time, of no later step than its own";
  addInputs(spec);
  spec.add_arguments({{"initial_state?: [N, D, C] like x",
                       "the W - 1 inputs before each sequence, the latest last; 0 if left out"},
                      packedArgument("ends"),
                      {"-> y: [B, T, D] like x", "activation(b + sum of w x), summed in f32"},
                      {"-> final_state: [N, D, C] like x", "the same after its last"}});
  configure(spec);
  spec.reference = causalConvReference;
  spec.apply = [](Use &use) {
    const ConvConfig config = configOf(use, "initial_state");
    const std::int64_t tiles = ceilDiv(use.extent("T"), config.t);
    const Grid grid(ceilDiv(use.extent("D"), config.d),
                    tiles + (config.packed ? use.extent("N") : 1), use.extent("B"));
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      use(causalConv<T>, grid, config, {{"tiles", tiles}});
    });
  };
  return spec;
}

KernelSpec sectile::causalConv1dUpdateSpec() {
  KernelSpec spec;
  spec.name = "causal_conv1d_update";
  spec.summary = "causal_conv1d of new tokens, with its states in a pool, changed in place";
  addInputs(spec);
  spec.add_arguments(
      {{"state: [P, D, C] like x", "the W - 1 inputs before each sequence, the latest last"},
       {"indices?: [N] i32",
        "sequence s has row indices[s] of the state; none if that is -1. Row s if "
        "left out",
        {.sample = sampleRows("P")}},
       packedArgument("ends"),
       {"-> y: [B, T, D] like x", "as of causal_conv1d; 0 where there is no row"},
       {"-> state_out: [P, D, C] like state updates state", "the same after its last"}});
  configure(spec);
  spec.batch.push_back("P");
  spec.check = [plain = spec.check](const Invocation &call) {
    plain(call);
    if (!call.has("indices") && call.extent("P") < call.extent("N"))
      refuse(call, "without indices sequence s has row s of state, which has ", call.extent("P"),
             " rows for ", call.extent("N"), " sequences");
  };
  spec.typical["P"] = 256;
  spec.small["P"] = 8;
  spec.contents = [plain = spec.contents](const Invocation &call,
                                          std::span<const HostArray> inputs) {
    plain(call, inputs);
    checkRows(call, inputs, "indices", call.extent("P"));
  };
  spec.reference = causalConvUpdateReference;
  spec.apply = [](Use &use) {
    ConvConfig config = configOf(use, "state");
    const std::int64_t columns = ceilDiv(use.extent("D"), config.d),
                       tiles = ceilDiv(use.extent("T"), config.t);
    config.whole = !config.packed && tiles <= 1;
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      use(causalConvUpdate<T>, Grid(columns, tiles, use.extent("B")), config);
      if (!config.whole)
        use(causalConvStates<T>, Grid(columns, use.extent("N")), config);
    });
  };
  return spec;
}
