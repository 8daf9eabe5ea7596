// rnn_backward, gru_backward and lstm_backward: from the last step to the first for the gradients
// of the gates' sums a and s; those of inputs, weights and biases are products over all steps:
//   dx = da w_ih, dw_ih = sum of da^T x, db_ih = sum of da, and of s and h likewise.
// Derived from the forward formulas; relu's derivative at 0 is 0. That y and reserve are the
// forward kernel's is not checked.
#include "kernels/recurrent/Cells.h"
#include "kernels/recurrent/Family.h"
#include "kernels/references/Sample.h"

using namespace sectile;
using namespace sectile::cells;

namespace {

// The gradients that reach the state after the last step.
template <class T>
Kernel begin{"recurrent_backward_begin", [](View<const T, 3> last, View<const T, 3> lastMemory,
                                            View<float, 3> carried, View<float, 3> memory) {
               auto i = program_id(0), j = program_id(1), d = program_id(2);
               carried.tile(1, 16, 64).store(d, i, j, last.tile(1, 16, 64).load(d, i, j));
               memory.tile(1, 16, 64).store(d, i, j, lastMemory.tile(1, 16, 64).load(d, i, j));
             }};

// The gradient of the state that a later step's gates read, added to what reaches it otherwise: of
// their sums, [B, G] in `sums`, if there is such a step.
template <class S, class W>
Tile<float> throughGates(const Tile<float> &total, const View<S, 2> &sums,
                         const View<W, 2> &weights, const Bool &present, const Int &i, const Int &j,
                         const StepConfig &config) {
  auto depth = where(present, cdiv(weights.extent(0), config.k), 0);
  // By itself: onto a larger total each term would be rounded to the total's last place.
  auto product = zeros<float>(config.b, config.h);
  for (auto k : range(0, depth))
    product = dot(sums.tile(config.b, config.k).load(i, k),
                  weights.tile(config.k, config.h).load(k, j), product, Precision::ieee);
  return total + product;
}

// Gradients of the sums that w_ih and w_hh enter: one array but for gru, whose n has r between.
template <class T>
Kernel steps{
    "recurrent_backward_steps",
    [](View<const T, 3> weights, View<const T, 3> h0, View<const T, 3> c0, View<const T, 4> y,
       View<const float, 4> reserve, View<const T, 4> dy, View<T, 4> inputSums,
       View<T, 4> stateSums, View<float, 3> carried, View<float, 3> memory, Int first, Int end,
       const StepConfig &config) {
      const int b = config.b, n = config.h;
      auto columns = cdiv(weights.extent(2), n);
      auto i = program_id(0) / columns, j = program_id(0) % columns, d = program_id(1);
      auto h = weights.extent(2), length = y.extent(1);
      for (auto index : range(first, end)) {
        auto step = length - 1 - index;
        auto position = positionOf(step, d, length);
        auto later = positionOf(step + 1, d, length), earlier = positionOf(step - 1, d, length);
        auto carry = carried.at(d).tile(b, n);
        auto dh = carry.load(i, j) + cast<float>(dy.at(d, position).tile(b, n).load(i, j));
        dh = throughGates(dh, stateSums.at(d, later), weights.at(d), index > 0, i, j, config);
        auto saved = [&](int slot) {
          return part(reserve.at(d, position), slot, h).tile(b, n).load(i, j);
        };
        auto toState = [&](int g, const Tile<float> &value) {
          part(stateSums.at(d, position), g, h).tile(b, n).store(i, j, value);
        };
        auto toInput = [&](int g, const Tile<float> &value) {
          part(inputSums.at(d, position), g, h).tile(b, n).store(i, j, value);
        };
        if (config.cell == lstmCell) {
          auto in = saved(0), forget = saved(1), candidate = saved(2), out = saved(3);
          auto bent = tanh(saved(4));
          auto cells = reserve.at(d).slice(2, h * 4, h);
          auto cellBefore = before(cells, c0.at(d), step, earlier, i, j, b, n);
          auto cell = memory.at(d).tile(b, n);
          auto dc = cell.load(i, j) + dh * out * (1.0f - bent * bent);
          toState(0, dc * candidate * in * (1.0f - in));
          toState(1, dc * cellBefore * forget * (1.0f - forget));
          toState(2, dc * in * (1.0f - candidate * candidate));
          toState(3, dh * bent * out * (1.0f - out));
          cell.store(i, j, dc * forget);
          carry.store(i, j, zeros<float>(b, n));
        } else if (config.cell == gruCell) {
          auto reset = saved(0), update = saved(1), candidate = saved(2), hidden = saved(3);
          auto stateBefore = before(y.at(d), h0.at(d), step, earlier, i, j, b, n);
          auto dn = dh * (1.0f - update) * (1.0f - candidate * candidate);
          auto dr = dn * hidden * reset * (1.0f - reset);
          auto dz = dh * (stateBefore - candidate) * update * (1.0f - update);
          toInput(0, dr);
          toInput(1, dz);
          toInput(2, dn);
          toState(0, dr);
          toState(1, dz);
          toState(2, dn * reset);
          carry.store(i, j, dh * update);
        } else {
          auto state = saved(0);
          toState(0, config.cell == tanhCell ? dh * (1.0f - state * state)
                                             : where(state > 0.0f, dh, 0.0f));
          carry.store(i, j, zeros<float>(b, n));
        }
        barrier(); // the next step reads what all threads wrote
      }
    }};

template <class T>
Kernel initial{"recurrent_backward_initial",
               [](View<const T, 3> weights, View<const T, 4> stateSums,
                  View<const float, 3> carried, View<const float, 3> memory, View<T, 3> dh0,
                  View<T, 3> dc0, const StepConfig &config) {
                 const int b = config.b, n = config.h;
                 auto columns = cdiv(weights.extent(2), n);
                 auto i = program_id(0) / columns, j = program_id(0) % columns, d = program_id(1);
                 auto length = stateSums.extent(1);
                 auto first = stateSums.at(d, positionOf(Int(0), d, length));
                 auto carry = carried.at(d).tile(b, n).load(i, j);
                 dh0.at(d).tile(b, n).store(
                     i, j, throughGates(carry, first, weights.at(d), length > 0, i, j, config));
                 dc0.at(d).tile(b, n).store(i, j, memory.at(d).tile(b, n).load(i, j));
               }};

struct SumConfig {
  int m = 64, n = 64, b = 16, warps = 4;
  bool states = false; // the other factor is the state before each step
};

// dw[d] = the sum over steps of sums^T x, of x [D, T, B, N], or of the states before the steps.
template <class T>
Kernel weightGradients{
    "recurrent_weight_gradients",
    [](View<const T, 4> sums, View<const T, 4> x, View<const T, 3> first, View<T, 3> dw,
       const SumConfig &config) {
      auto i = program_id(0), j = program_id(1), d = program_id(2);
      auto total = zeros<float>(config.m, config.n);
      auto length = sums.extent(1);
      for (auto step : range(0, length)) {
        auto position = positionOf(step, d, length);
        auto left = sums.at(d, position).tile(config.b, config.m);
        for (auto row : range(0, cdiv(sums.extent(2), config.b))) {
          Tile<T> right = x.at(d, position).tile(config.b, config.n).load(row, j);
          if (config.states)
            right = cast<T>(before(x.at(d), first.at(d), step, positionOf(step - 1, d, length), row,
                                   j, config.b, config.n));
          total = dot(trans(left.load(row, i)), right, total, Precision::ieee);
        }
      }
      dw.at(d).tile(config.m, config.n).store(i, j, total);
    }};

template <class T>
Kernel biasGradients{
    "recurrent_bias_gradients", [](View<const T, 4> sums, View<T, 2> db, const SumConfig &config) {
      auto j = program_id(0), d = program_id(1);
      auto total = zeros<float>(config.b, config.n);
      for (auto t : range(0, sums.extent(1)))
        for (auto row : range(0, cdiv(sums.extent(2), config.b)))
          total += cast<float>(sums.at(d, t).tile(config.b, config.n).load(row, j));
      db.at(d).tile(config.n).store(j, sum(total, 0));
    }};

void addArguments(KernelSpec &spec, Cell cell) {
  std::vector<std::string> inputs;
  for (const ArgumentSpec &input : spec.arguments)
    inputs.push_back(input.name);
  // Gates are between 0 and 1.
  const auto gates = sampleUniform(0.05, 0.95);
  spec.add_arguments({{"y: [T, B, Y] like x", "the forward kernel's", {.stored = timeFirst()}},
                      {"reserve: [..., T, B, R] f32", "the forward kernel's", {.sample = gates}},
                      {"dy: [T, B, Y] like x", "gradient of y", {.stored = timeFirst()}},
                      {"dh_n?: [..., B, H] like x", "gradient of h_n; 0 if left out"}});
  if (cell == lstmCell)
    spec.add_arguments({{"dc_n?: [..., B, H] like x", "gradient of c_n; 0 if left out"}});
  spec.add_gradients(inputs);
}

template <class T> void applyBackward(Use &use, Cell cell) {
  const Invocation &call = use.call;
  const std::int64_t directions = directionsOf(call), b = call.extent("B"), h = call.extent("H"),
                     length = call.extent("T"), gates = call.extent("G"), inputs = call.extent("I");
  const auto chosen = use.config_as(StepConfig{.cell = cellOf(call, cell)});
  const Tensor<T, 3> none{nullptr, {}, {}};
  const bool lstm = cell == lstmCell;
  const auto carried = use.workspace<float, 3>({directions, b, h}),
             memory = use.workspace<float, 3>({directions, b, lstm ? h : 0});
  const auto stateSums = use.workspace<T, 4>({directions, length, b, gates});
  const auto inputSums =
      cell == gruCell ? use.workspace<T, 4>({directions, length, b, gates}) : stateSums;
  const auto weights = use.collapsed<T, 3>("w_hh"), h0 = use.collapsed<T, 3>("h0"),
             c0 = lstm ? use.collapsed<T, 3>("c0") : none;
  const auto y = byDirection(use.tensor<T, 3>("y"), directions, false);

  use(begin<T>, Grid(ceilDiv(b, 16), ceilDiv(h, 64), directions), use.collapsed<T, 3>("dh_n"),
      lstm ? use.collapsed<T, 3>("dc_n") : none, carried, memory);
  const std::int64_t columns = ceilDiv(h, chosen.h), each = columns == 1 ? length : 1;
  const Grid grid(ceilDiv(b, chosen.b) * columns, directions);
  for (std::int64_t index = 0; index < length; index += each)
    use(steps<T>, grid, weights, h0, c0, y, use.collapsed<float, 4>("reserve"),
        byDirection(use.tensor<T, 3>("dy"), directions, false), inputSums, stateSums, carried,
        memory, index, index + each, chosen);
  if (use.has("h0") || (lstm && use.has("c0")))
    use(initial<T>, grid, weights, stateSums, carried, memory, use.collapsed<T, 3>("dh0"),
        lstm ? use.collapsed<T, 3>("dc0") : none, chosen);

  products<T, T>(use, inputSums, use.collapsed<T, 3>("w_ih"),
                 byDirection(use.tensor<T, 3>("dx"), 1, false));
  const int tile = std::same_as<T, float> ? 32 : 64;
  const SumConfig sums{tile, tile, b > 16 ? 32 : 16, 4, false};
  SumConfig overStates = sums;
  overStates.states = true;
  use(weightGradients<T>, Grid(ceilDiv(gates, sums.m), ceilDiv(inputs, sums.n), directions),
      inputSums, byDirection(use.tensor<T, 3>("x"), directions, true), none,
      use.collapsed<T, 3>("dw_ih"), sums);
  use(weightGradients<T>, Grid(ceilDiv(gates, sums.m), ceilDiv(h, sums.n), directions), stateSums,
      y, h0, use.collapsed<T, 3>("dw_hh"), overStates);
  const Grid biases(ceilDiv(gates, sums.n), directions);
  if (use.has("b_ih"))
    use(biasGradients<T>, biases, inputSums, use.collapsed<T, 2>("db_ih"), sums);
  if (use.has("b_hh"))
    use(biasGradients<T>, biases, stateSums, use.collapsed<T, 2>("db_hh"), sums);
}

KernelSpec backwardSpec(Cell cell, const char *name, const char *summary) {
  KernelSpec spec = commonSpec(cell, name, summary, "recurrent_backward_steps");
  addArguments(spec, cell);
  spec.follow = [common = spec.follow, cell](Invocation &call) {
    common(call);
    call.extents["Y"] = call.extent("...") * call.extent("H");
    call.extents["R"] = slotsOf(cell) * call.extent("H");
  };
  spec.check = [common = spec.check, cell](const Invocation &call) {
    common(call);
    if (call.extent("Y") != directionsOf(call) * call.extent("H"))
      refuse(call, "y has ", call.extent("Y"), " columns, but the weights make ",
             directionsOf(call) * call.extent("H"));
    if (call.extent("R") != slotsOf(cell) * call.extent("H"))
      refuse(call, "reserve has ", call.extent("R"), " columns, but ", slotsOf(cell), " H are ",
             slotsOf(cell) * call.extent("H"));
  };
  spec.reference = [cell](const Invocation &call, std::span<const HostArray> inputs,
                          Arithmetic arithmetic) {
    return cellBackwardReference(call, cellOf(call, cell), inputs, arithmetic);
  };
  spec.factor = 3;
  spec.apply = [cell](Use &use) {
    for_dtype<half, bfloat16, float>(use.call.dtype("x"),
                                     [&]<class T>(T) { applyBackward<T>(use, cell); });
  };
  return spec;
}

} // namespace

KernelSpec sectile::rnnBackwardSpec() {
  return backwardSpec(tanhCell, "rnn_backward", "gradients of rnn");
}

KernelSpec sectile::gruBackwardSpec() {
  return backwardSpec(gruCell, "gru_backward", "gradients of gru");
}

KernelSpec sectile::lstmBackwardSpec() {
  return backwardSpec(lstmCell, "lstm_backward", "gradients of lstm");
}
