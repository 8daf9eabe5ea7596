// rnn, gru and lstm over time. With a = x w_ih^T + b_ih and s = h w_hh^T + b_hh of the state
// before:
//   rnn:  h = tanh(a + s) or max(a + s, 0)
//   gru:  r, z = sigmoid(a + s), n = tanh(a + r s), h = (1 - z) n + z h
//   lstm: i, f, o = sigmoid(a + s), g = tanh(a + s), c = f c + i g, h = o tanh(c)
// (Cho et al., arXiv 1406.1078; Hochreiter and Schmidhuber 1997, f by Gers et al. 2000) in the
// forms and the order of gates of torch.nn.RNN, GRU and LSTM: r is applied behind the product.
// Refused: weights whose rows are no whole gates, more than two directions. The inputs' part of all
// gates is one product over all steps; then comes a launch for each step, or one for all where a
// program holds all of H.
#include "kernels/recurrent/Cells.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/recurrent/Family.h"
#include "kernels/references/Sample.h"
#include <cmath>

using namespace sectile;
using namespace sectile::cells;

namespace {

// The state and the cell state before the first step, which are the last ones too if there is none.
template <class T>
Kernel begin{"recurrent_begin", [](View<const T, 3> h0, View<const T, 3> c0, View<T, 4> state,
                                   View<float, 3> memory, View<T, 3> last, View<T, 3> lastMemory) {
               auto i = program_id(0), j = program_id(1), d = program_id(2);
               auto h = h0.tile(1, 16, 64).load(d, i, j);
               state.at(0).tile(1, 16, 64).store(d, i, j, h);
               last.tile(1, 16, 64).store(d, i, j, h);
               auto c = c0.tile(1, 16, 64).load(d, i, j);
               memory.tile(1, 16, 64).store(d, i, j, cast<float>(c));
               lastMemory.tile(1, 16, 64).store(d, i, j, c);
             }};

template <class T>
Kernel steps{
    "recurrent_steps",
    [](View<const T, 3> weights, View<const T, 2> inputBias, View<const T, 2> stateBias,
       View<T, 4> y, View<float, 4> reserve, View<T, 4> state, View<float, 3> memory,
       View<T, 3> last, View<T, 3> lastMemory, Int first, Int end, const StepConfig &config) {
      const int b = config.b, n = config.h, gates = gatesOf(config.cell);
      auto columns = cdiv(weights.extent(2), n);
      auto i = program_id(0) / columns, j = program_id(0) % columns, d = program_id(1);
      auto h = weights.extent(2), length = y.extent(1);
      std::array<Tile<float>, 4> inputBiases, stateBiases;
      for (int g = 0; g < gates; ++g) {
        auto bias = [&](const View<const T, 2> &biases, bool present) {
          if (!present)
            return zeros<float>(1, n);
          return expand(cast<float>(biases.at(d).slice(0, h * g, h).tile(n).load(j)), 0);
        };
        inputBiases[g] = bias(inputBias, config.b_ih);
        stateBiases[g] = bias(stateBias, config.b_hh);
      }
      for (auto step : range(first, end)) {
        auto now = state.at(step % 2, d);
        std::array<Tile<float>, 4> sums;
        for (int g = 0; g < gates; ++g)
          sums[g] = zeros<float>(b, n);
        for (auto k : range(0, cdiv(h, config.k))) {
          auto left = now.tile(b, config.k).load(i, k);
          for (int g = 0; g < gates; ++g) {
            auto right = weights.at(d).slice(0, h * g, h).tile(n, config.k).load(j, k);
            sums[g] = dot(left, trans(right), sums[g], Precision::ieee);
          }
        }
        auto position = positionOf(step, d, length);
        auto saved = reserve.at(d, position);
        auto fromInput = [&](int g) {
          return part(saved, g, h).tile(b, n).load(i, j) + inputBiases[g];
        };
        auto fromState = [&](int g) { return sums[g] + stateBiases[g]; };
        auto save = [&](int slot, const Tile<float> &value) {
          part(saved, slot, h).tile(b, n).store(i, j, value);
        };
        Tile<float> output = sums[0];
        if (config.cell == lstmCell) {
          auto in = sigmoid(fromInput(0) + fromState(0));
          auto forget = sigmoid(fromInput(1) + fromState(1));
          auto candidate = tanh(fromInput(2) + fromState(2));
          auto out = sigmoid(fromInput(3) + fromState(3));
          auto cell = memory.at(d).tile(b, n);
          auto next = forget * cell.load(i, j) + in * candidate;
          output = out * tanh(next);
          cell.store(i, j, next);
          save(0, in);
          save(1, forget);
          save(2, candidate);
          save(3, out);
          save(4, next);
          when(step + 1 == length, [&] { lastMemory.at(d).tile(b, n).store(i, j, next); });
        } else if (config.cell == gruCell) {
          auto reset = sigmoid(fromInput(0) + fromState(0));
          auto update = sigmoid(fromInput(1) + fromState(1));
          auto hidden = fromState(2);
          auto candidate = tanh(fromInput(2) + reset * hidden);
          auto earlier = cast<float>(now.tile(b, n).load(i, j));
          output = (1.0f - update) * candidate + update * earlier;
          save(0, reset);
          save(1, update);
          save(2, candidate);
          save(3, hidden);
        } else {
          auto sum = fromInput(0) + fromState(0);
          output = config.cell == tanhCell ? tanh(sum) : maximum(sum, 0.0f, Nan::propagate);
          save(0, output);
        }
        y.at(d, position).tile(b, n).store(i, j, output);
        state.at((step + 1) % 2, d).tile(b, n).store(i, j, output);
        when(step + 1 == length, [&] { last.at(d).tile(b, n).store(i, j, output); });
        barrier(); // the next step reads what all threads wrote
      }
    }};

KernelSpec cellSpec(Cell cell, const char *name, const char *summary) {
  KernelSpec spec = commonSpec(cell, name, summary, "recurrent_steps");
  spec.add_arguments(
      {{"-> y: [T, B, Y] like x",
        "the states; Y is H, or 2 H with the backward direction's behind",
        {.stored = timeFirst()}},
       {"-> h_n: [..., B, H] like x", "the state after each direction's last step"}});
  if (cell == lstmCell)
    spec.add_arguments(
        {{"-> c_n: [..., B, H] like x", "the cell state after each direction's last step"}});
  spec.add_arguments(
      {{"-> reserve: [..., T, B, R] f32",
        cell == lstmCell  ? "for the backward kernel: i, f, g, o and c, R = 5 H"
        : cell == gruCell ? "for the backward kernel: r, z, n and what r multiplies, R = 4 H"
                          : "for the backward kernel: the states, R = H"}});
  spec.derive = [cell](Invocation &call) {
    call.extents["Y"] = directionsOf(call) * call.extent("H");
    call.extents["R"] = slotsOf(cell) * call.extent("H");
  };
  spec.reference = [cell](const Invocation &call, std::span<const HostArray> inputs,
                          Arithmetic arithmetic) {
    return cellReference(call, cellOf(call, cell), inputs, arithmetic);
  };
  spec.apply = [cell](Use &use) {
    const Invocation &call = use.call;
    const std::int64_t directions = directionsOf(call), b = call.extent("B"), h = call.extent("H"),
                       length = call.extent("T"), gates = call.extent("G");
    auto chosen = use.config_as<StepConfig>();
    chosen.cell = cellOf(call, cell);
    for_dtype<half, bfloat16, float>(call.dtype("x"), [&]<class T>(T) {
      const auto state = use.workspace<T, 4>({2, directions, b, h});
      const auto memory = use.workspace<float, 3>({directions, b, cell == lstmCell ? h : 0});
      const auto last = use.collapsed<T, 3>("h_n");
      const Tensor<T, 3> none{nullptr, {}, {}};
      const auto lastMemory = cell == lstmCell ? use.collapsed<T, 3>("c_n") : none;
      const auto reserve = use.collapsed<float, 4>("reserve");
      products<T, float>(use, byDirection(use.tensor<T, 3>("x"), directions, true),
                         use.collapsed<T, 3>("w_ih").permute({0, 2, 1}), leading(reserve, gates));
      use(begin<T>, Grid(ceilDiv(b, 16), ceilDiv(h, 64), directions), use.collapsed<T, 3>("h0"),
          cell == lstmCell ? use.collapsed<T, 3>("c0") : none, state, memory, last, lastMemory);
      // A step needs all columns of the state before it.
      const std::int64_t columns = ceilDiv(h, chosen.h), each = columns == 1 ? length : 1;
      for (std::int64_t step = 0; step < length; step += each)
        use(steps<T>, Grid(ceilDiv(b, chosen.b) * columns, directions), use.collapsed<T, 3>("w_hh"),
            use.collapsed<T, 2>("b_ih"), use.collapsed<T, 2>("b_hh"),
            byDirection(use.tensor<T, 3>("y"), directions, false), reserve, state, memory, last,
            lastMemory, step, step + each, chosen);
    });
  };
  return spec;
}

// Numbers of this spread.
auto spread(const char *axis) {
  return [axis](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
    const auto extent = static_cast<double>(std::max<std::int64_t>(call.extent(axis), 1));
    sampleNormal(1 / std::sqrt(extent))(call, array, random);
  };
}

} // namespace

std::function<std::vector<std::string>(std::vector<std::string>, const OptionValues &)>
cells::timeFirst() {
  return [](std::vector<std::string> axes, const OptionValues &options) {
    if (options.flag("batch_first"))
      std::swap(axes[0], axes[1]);
    return axes;
  };
}

int cells::cellOf(const Invocation &call, Cell cell) {
  if (cell == tanhCell && call.options.choice("nonlinearity") == "relu")
    return reluCell;
  return cell;
}

static Config defaultsOf(const Invocation &call, const std::string &) {
  const bool wide = call.dtype("x") == DType::float32;
  const std::int64_t whole = std::clamp<std::int64_t>(powerAtLeast(call.extent("H")), 16, 128);
  // Beyond that steps are launches of their own, of more and smaller programs.
  const bool fits = call.extent("H") <= whole;
  return {{"b", 16}, {"h", fits ? whole : 32}, {"k", wide ? 16 : 32}, {"warps", 4}};
}

KernelSpec cells::commonSpec(Cell cell, const char *name, const char *summary, const char *part) {
  KernelSpec spec;
  spec.name = name;
  spec.summary = summary;
  spec.add_arguments(
      {{"x: [T, B, I] f32|f16|bf16",
        "the inputs; [B, T, I] with batch_first",
        {.stored = timeFirst()}},
       {"w_ih: [..., G, I] like x",
        cell == lstmCell  ? "[4 H, I] for the gates i, f, g, o; [2, 4 H, I] for two directions"
        : cell == gruCell ? "[3 H, I] for the gates r, z, n; [2, 3 H, I] for two directions"
                          : "[H, I]; [2, H, I] for two directions",
        {.sample = spread("I")}},
       {"w_hh: [..., G, H] like x", "the same for the state", {.sample = spread("H")}},
       {"b_ih?: [..., G] like x", "added to what w_ih gives"},
       {"b_hh?: [..., G] like x", "added to what w_hh gives"},
       {"h0?: [..., B, H] like x", "the state before each direction's first step; 0 if left out"}});
  if (cell == lstmCell)
    spec.add_arguments({{"c0?: [..., B, H] like x",
                         "the cell state before each direction's first step; 0 if left out"}});
  spec.add_options({{"batch_first: flag = false", "x and y have B before T"}});
  if (cell == tanhCell)
    spec.add_options({{"nonlinearity: tanh|relu = tanh", "what makes the state of the sum"}});
  spec.config = {
      {"b", "rows of the batch of one program of a step"},
      {"h", "columns of the state of one program; where they are all, one launch does all steps"},
      {"k", "depth of one product"},
      {"warps", "warps of one program"}};
  spec.batch = {"B", "T"}; // "..." are directions
  spec.typical = {{"T", 512}, {"B", 64}, {"I", 512}, {"H", 512}, {"...", 1}};
  spec.small = {{"T", 5}, {"B", 3}, {"I", 12}, {"H", 20}, {"...", 2}};
  spec.follow = [cell](Invocation &call) { call.extents["G"] = gatesOf(cell) * call.extent("H"); };
  spec.check = [cell](const Invocation &call) {
    if (call.leading.size() > 1 || directionsOf(call) < 1 || directionsOf(call) > 2)
      refuse(call, "w_ih has one leading axis at most, of 1 or 2 directions, but is ",
             toString(call.tensor("w_ih").shape));
    if (call.extent("G") != gatesOf(cell) * call.extent("H"))
      refuse(call, "w_ih and w_hh have ", call.extent("G"), " rows, but ", gatesOf(cell), " H are ",
             gatesOf(cell) * call.extent("H"));
  };
  spec.defaults = defaultsOf;
  spec.spaces = {
      {.part = part,
       .axes = {{"b", {16, 32, 64}},
                {"h", {16, 32, 64, 128}},
                {"k", {16, 32, 64}},
                {"warps", {2, 4, 8}}},
       // One step is not to be compared with all of them.
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t h = call.extent("H"), sums = config.at("b") * config.at("h") /
                                                         (config.at("warps") * warpSize(target));
         const bool whole = config.at("h") >= h, wanted = defaultsOf(call, target).at("h") >= h;
         return whole == wanted && sums >= 1 && sums <= 32;
       }}};
  return spec;
}

KernelSpec sectile::rnnSpec() {
  return cellSpec(tanhCell, "rnn", "h = tanh(x w_ih^T + b_ih + h w_hh^T + b_hh) over time");
}

KernelSpec sectile::gruSpec() {
  return cellSpec(gruCell, "gru", "gated recurrent units over time, in one or two directions");
}

KernelSpec sectile::lstmSpec() {
  return cellSpec(lstmCell, "lstm", "long short-term memory over time, in one or two directions");
}
