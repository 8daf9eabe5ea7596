// delta_rule: a state that forgets what a key stood for before it takes in the key's new value,
//   S <- e^g S, u = beta (v - S^T k), S <- S + k u^T, o = scale S^T q,
// the gated delta rule (Yang et al., arXiv 2412.06464), by chunks of steps on matrix units. With A
// the products of a chunk's keys below the diagonal, times beta and the decay between them, and
// (I + A)^-1 = X: u = X (beta v) - X (beta e^G k) S. The two products with X need no state, so that
// all chunks have them at once; the states then go from chunk to chunk, and outputs follow, again
// all at once. K beyond 256 is refused. A NaN or an infinity of a step may reach the earlier steps
// of its chunk.
#include "kernels/recurrent/DeltaRule.h"
#include "kernels/Activations.h"
#include "kernels/Contents.h"
#include "kernels/Sample.h"
#include "kernels/recurrent/Family.h"

using namespace sectile;
using namespace sectile::delta;

namespace {

// Numbers of steps and heads ------------------------------------------------------------------

enum class GateForm : int { same, sigmoid, softplus, bounded };

struct GateConfig {
  int steps = 64, heads = 16, warps = 4;
  GateForm form = GateForm::same;
  bool x = true, a_log = false, dt_bias = false; // given
};
SECTILE_CONFIG(GateConfig, steps, heads, warps, form, x, a_log, dt_bias)

// beta or g as the other launches take it, in f32.
template <class T>
Kernel gates{
    "delta_rule_gates", [](View<const T, 3> x, View<const float, 1> logs, View<const float, 1> bias,
                           View<float, 3> y, Float factor, const GateConfig &config) {
      auto heads = cdiv(y.extent(2), config.heads);
      auto block = program_id(0) / heads, head = program_id(0) % heads, batch = program_id(1);
      auto value = zeros<float>(config.steps, config.heads);
      if (config.x)
        value = cast<float>(x.at(batch).tile(config.steps, config.heads).load(block, head));
      auto speed = full<float>(1, 1, config.heads);
      if (config.a_log)
        speed = exp(expand(logs.tile(config.heads).load(head), 0));
      if (config.dt_bias)
        value += expand(bias.tile(config.heads).load(head), 0);
      if (config.form == GateForm::sigmoid)
        value = sigmoid(value);
      else if (config.form == GateForm::softplus)
        value = speed * activate(Activation::softplus, value);
      else if (config.form == GateForm::bounded)
        value = sigmoid(speed * value);
      y.at(batch).tile(config.steps, config.heads).store(block, head, value * factor);
    }};

// The three launches --------------------------------------------------------------------------

// Of each chunk: what its steps add without a state (`values`), what they take of the state before
// the chunk (`reads`), and how much of each step and of that state remains behind it.
template <class T>
Kernel chunks{
    "delta_rule_chunks",
    [](View<const T, 4> k, View<const T, 4> v, View<const float, 3> beta, View<const float, 3> g,
       View<const std::int32_t, 1> starts, View<T, 4> reads, View<T, 4> values,
       View<float, 3> remaining, View<float, 2> whole, const DeltaConfig &config) {
      const int chunk = config.chunk, width = config.width, columns = config.columns;
      auto slot = program_id(0), head = program_id(1);
      withChunk(
          starts, slot, k.extent(1), config, [&](const Sequence &sequence, const Int &number) {
            auto keys = sequence.rows(k, head / (v.extent(2) / k.extent(2)));
            auto logs = sequence.numbers(g, head);
            auto key = keys.tile(chunk, width).load(number, 0);
            auto strength = sequence.numbers(beta, head).tile(chunk).load(number);
            auto factor = factors(key, config);
            auto i = expand(arange(0, chunk), 1), j = expand(arange(0, chunk), 0);
            auto products = dot(key, trans(key), zeros<float>(chunk, chunk), Precision::ieee) *
                            recurrence::pairwise(logs, number, decays(config));
            auto lower =
                where(i > j, products * expand(strength * factor, 1) * expand(factor, 0), 0.0f);
            auto inverse = Inverse<T>(lower, chunk)();
            auto decay = recurrence::decayOf(logs, View<const float, 2>(), number, decays(config));
            remaining.at(slot, head).tile(chunk).store(0, reshape(decay.toEnd, chunk) * factor);
            whole.at(slot).tile(1).store(head, decay.whole);

            auto solved = [&](const Tile<T> &rows, const Tile<float> &weights) {
              const auto zero = zeros<float>(chunk, columns);
              const auto right = cast<float>(rows) * weights;
              if constexpr (std::same_as<T, half>)
                return dot(cast<half>(inverse), cast<half>(right), zero, Precision::ieee);
              else
                return dot(inverse, right, zero, statePrecision<T>);
            };
            auto before = decay.fromStart * expand(strength * factor, 1);
            for (auto column : range(0, cdiv(k.extent(3), columns)))
              reads.at(slot, head)
                  .tile(chunk, columns)
                  .store(0, column, solved(keys.tile(chunk, columns).load(number, column), before));
            auto from = sequence.rows(v, head).tile(chunk, columns);
            for (auto column : range(0, cdiv(v.extent(3), columns)))
              values.at(slot, head)
                  .tile(chunk, columns)
                  .store(0, column, solved(from.load(number, column), expand(strength, 1)));
          });
    }};

// From chunk to chunk, with some columns of a state: leaves the state before each chunk, and what
// the chunk's steps add in place of `values`.
template <class T, class U>
Kernel states{
    "delta_rule_states",
    [](View<const T, 4> k, View<const std::int32_t, 1> starts, View<const T, 4> reads,
       View<T, 4> values, View<const float, 3> remaining, View<const float, 2> whole,
       View<const float, 4> initial, View<U, 4> kept, View<float, 4> last,
       const DeltaConfig &config) {
      const int chunk = config.chunk, width = config.width, columns = config.columns;
      auto column = program_id(0), head = program_id(1), one = program_id(2);
      const auto sequence = sequenceOf(starts, one, k.extent(1), config);
      auto keys = sequence.rows(k, head / (values.extent(1) / k.extent(2))).tile(chunk, width);
      auto state = zeros<float>(width, columns);
      if (config.initial_state)
        state = initial.at(one, head).tile(width, columns).load(0, column);
      for (auto number : range(0, cdiv(sequence.tokens.length, chunk))) {
        auto slot = sequence.slot + number;
        auto key = keys.load(number, 0);
        auto read = reads.at(slot, head).tile(chunk, width).load(0, 0);
        auto to = values.at(slot, head).tile(chunk, columns);
        auto late = expand(remaining.at(slot, head).tile(chunk).load(0), 1);
        auto rest = load(whole.ptr() + cast<std::int64_t>(slot) * whole.stride(0) +
                         cast<std::int64_t>(head) * whole.stride(1));
        kept.at(slot, head).tile(width, columns).store(0, column, cast<U>(state));
        auto added =
            cast<T>(cast<float>(to.load(0, column)) -
                    dot(cast<float>(read), state, zeros<float>(chunk, columns), statePrecision<T>));
        to.store(0, column, added);
        state = dot(trans(cast<T>(cast<float>(key) * late)), added, state * rest, Precision::ieee);
      }
      last.at(one, head).tile(width, columns).store(0, column, state);
    }};

template <class T, class U>
Kernel outputs{
    "delta_rule_outputs",
    [](View<const T, 4> q, View<const T, 4> k, View<const float, 3> g,
       View<const std::int32_t, 1> starts, View<const T, 4> values, View<const U, 4> kept,
       View<T, 4> o, Float scale, const DeltaConfig &config) {
      const int chunk = config.chunk, width = config.width, columns = config.columns;
      auto blocks = cdiv(o.extent(3), columns);
      auto slot = program_id(0) / blocks, column = program_id(0) % blocks, head = program_id(1);
      withChunk(
          starts, slot, q.extent(1), config, [&](const Sequence &sequence, const Int &number) {
            auto shared = head / (o.extent(2) / q.extent(2));
            auto logs = sequence.numbers(g, head);
            auto query = sequence.rows(q, shared).tile(chunk, width).load(number, 0),
                 key = sequence.rows(k, shared).tile(chunk, width).load(number, 0);
            auto queryScale = expand(factors(query, config) * scale, 1);
            auto i = expand(arange(0, chunk), 1), j = expand(arange(0, chunk), 0);
            auto scores = dot(query, trans(key), zeros<float>(chunk, chunk), Precision::ieee) *
                          recurrence::pairwise(logs, number, decays(config)) * queryScale *
                          expand(factors(key, config), 0);
            auto decay = recurrence::decayOf(logs, View<const float, 2>(), number, decays(config));
            auto early = cast<float>(query) * decay.fromStart * queryScale;
            auto result =
                dot(cast<U>(early), kept.at(slot, head).tile(width, columns).load(0, column),
                    zeros<float>(chunk, columns), statePrecision<T>);
            result = dot(cast<T>(where(i >= j, scores, 0.0f)),
                         values.at(slot, head).tile(chunk, columns).load(0, column), result,
                         Precision::ieee);
            sequence.rows(o, head).tile(chunk, columns).store(number, column, result);
          });
    }};

// The call ------------------------------------------------------------------------------------

// Vectors no longer than sqrt(2): with beta up to 1 the states stay bounded.
void sampleKeys(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  const double most =
      std::sqrt(2.0 / static_cast<double>(std::max<std::int64_t>(call.extent("K"), 1)));
  sampleUniform(-most, most)(call, array, random);
}

void sampleLogs(const Invocation &, HostArray &logs, std::mt19937_64 &random) {
  std::normal_distribution<double> normal;
  fillDrawn(logs, [&] { return -0.5 * std::abs(normal(random)); });
}

void sampleStarts(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  const auto ends = array.as<std::int32_t>();
  const auto length = static_cast<std::uint64_t>(call.extent("T"));
  for (std::size_t i = 1; i < ends.size(); ++i)
    ends[i] = static_cast<std::int32_t>(random() % (length + 1));
  std::ranges::sort(ends);
  if (ends.size() > 1)
    ends.back() = static_cast<std::int32_t>(length);
}

std::vector<std::string> storedStates(std::vector<std::string> axes, const OptionValues &options) {
  if (options.choice("state_layout") == "vk")
    std::swap(axes[2], axes[3]);
  return axes;
}

std::vector<ArgumentRow> inputs() {
  return {{"q: [B, T, Hk, K] f16|bf16|f32", "queries; K is at most 256", {.sample = sampleKeys}},
          {"k: [B, T, Hk, K] like q",
           "keys; where beta k^T k is above 2 the state grows without bound",
           {.sample = sampleKeys}},
          {"v: [B, T, Hv, V] like q", "values; Hv is a multiple of Hk"},
          {"beta: [B, T, Hv] f32|f16|bf16",
           "how much of what the key stood for is replaced: from 0 to 1, or to 2",
           {.sample = sampleUniform(0, 1)}},
          {"g?: [B, T, Hv] f32|f16|bf16",
           "logarithm of each step's decay, or what the gate makes it of; 0 if left out",
           {.sample = sampleLogs}},
          {"A_log?: [Hv] f32", "of the gate; 0 if left out", {.sample = sampleUniform(-1, 1)}},
          {"dt_bias?: [Hv] f32", "of the gate; 0 if left out"},
          {"initial_state?: [N, Hv, K, V] f32",
           "the state before each sequence; zeros if left out",
           {.stored = storedStates}},
          {"cu_seqlens?: [N1] i32",
           "packed sequences (B is 1): sequence s is steps cu_seqlens[s] to cu_seqlens[s + 1] - 1; "
           "from 0 to T, never falling",
           {.sample = sampleStarts}}};
}

std::int64_t sequences(const Invocation &call) {
  return call.has("cu_seqlens") ? call.extent("N1") - 1 : call.extent("B");
}

void check(const Invocation &call) {
  const std::int64_t heads = call.extent("Hk"), all = call.extent("Hv");
  if (call.extent("K") > 256)
    refuse(call, "K is " + std::to_string(call.extent("K")) + ", but must be at most 256");
  if (heads < 1 ? all != 0 : all % heads != 0)
    refuse(call, "v has " + std::to_string(all) + " heads, which is no multiple of the " +
                     std::to_string(heads) + " heads of k");
  if (call.has("cu_seqlens") && call.extent("B") != 1)
    refuse(call, "with cu_seqlens B must be 1, but is " + std::to_string(call.extent("B")));
  if (call.has("cu_seqlens") && call.extent("N1") < 1)
    refuse(call, "cu_seqlens has one element more than there are sequences, so at least one");
  if (call.has("cu_seqlens") && call.extent("N1") == 1 && call.extent("T") != 0)
    refuse(call, "q has steps, but there is no sequence");
  if (call.extent("N") != sequences(call))
    refuse(call, "initial_state has " + std::to_string(call.extent("N")) +
                     " states, but there are " + std::to_string(sequences(call)) + " sequences");
  for (const char *input : {"A_log", "dt_bias"})
    if (call.has(input) && call.options.choice("gate") == "none")
      refuse(call, std::string(input) + " is the gate's: option 'gate' cannot be none with it");
}

std::int64_t widthOf(const Invocation &call) {
  return std::max<std::int64_t>(ceilDiv(call.extent("K"), 16), 1) * 16;
}

float scaleOf(const Invocation &call) {
  if (call.options.given("scale"))
    return static_cast<float>(call.options.number("scale"));
  // Of keys without channels nothing comes, whatever its factor; infinity would make it NaN.
  const auto width = static_cast<double>(std::max<std::int64_t>(call.extent("K"), 1));
  return static_cast<float>(1 / std::sqrt(width));
}

// An input of numbers by step and head in f32, made by `form` and times `factor`.
Tensor<float, 3> numbersOf(Use &use, const char *name, GateForm form, float factor) {
  const bool isGate = form == GateForm::softplus || form == GateForm::bounded;
  if (!use.has(name) && !isGate)
    return noTensor<float, 3>();
  const DType dtype = use.has(name) ? use.call.dtype(name) : DType::float32;
  if (dtype == DType::float32 && form == GateForm::same && factor == 1)
    return use.tensor<float, 3>(name);
  const auto result = use.workspace<float, 3>({use.extent("B"), use.extent("T"), use.extent("Hv")});
  const GateConfig config{.form = form,
                          .x = use.has(name),
                          .a_log = isGate && use.has("A_log"),
                          .dt_bias = isGate && use.has("dt_bias")};
  const Grid grid(ceilDiv(use.extent("T"), config.steps) * ceilDiv(use.extent("Hv"), config.heads),
                  use.extent("B"));
  for_dtype<float, half, bfloat16>(dtype, [&]<class T>(T) {
    use(gates<T>, grid, use.tensor<T, 3>(name), use.tensor<float, 1>("A_log"),
        use.tensor<float, 1>("dt_bias"), result, factor, config);
  });
  return result;
}

void apply(Use &use) {
  const Invocation &call = use.call;
  const auto &options = call.options;
  DeltaConfig config{.chunk = use.field("chunk"),
                     .columns = use.field("dv"),
                     .warps = use.field("warps"),
                     .width = static_cast<int>(widthOf(call)),
                     .g = use.has("g") || options.choice("gate") != "none",
                     .initial_state = use.has("initial_state"),
                     .packed = use.has("cu_seqlens"),
                     .l2norm = options.flag("qk_l2norm")};
  DeltaConfig wide = config;
  wide.columns = use.field("columns");
  wide.warps = use.field("chunk_warps");
  const std::string &gate = options.choice("gate");
  const auto beta =
      numbersOf(use, "beta", options.flag("beta_sigmoid") ? GateForm::sigmoid : GateForm::same,
                options.flag("allow_negative") ? 2 : 1);
  const auto g = numbersOf(use, "g",
                           gate == "softplus"  ? GateForm::softplus
                           : gate == "sigmoid" ? GateForm::bounded
                                               : GateForm::same,
                           gate == "softplus"  ? -1
                           : gate == "sigmoid" ? static_cast<float>(options.number("lower_bound"))
                                               : 1);
  const std::int64_t heads = call.extent("Hv"), k = call.extent("K"), v = call.extent("V"),
                     count = call.extent("N"),
                     slots = use.has("cu_seqlens")
                                 ? call.extent("T") / config.chunk + count
                                 : count * ceilDiv(call.extent("T"), config.chunk);
  const auto starts = use.tensor<std::int32_t, 1>("cu_seqlens");
  const auto remaining = use.workspace<float, 3>({slots, heads, config.chunk});
  const auto whole = use.workspace<float, 2>({slots, heads});
  for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
    // bfloat16 has the range of a state, half does not.
    using U = std::conditional_t<std::same_as<T, bfloat16>, bfloat16, float>;
    const auto keys = use.tensor<T, 4>("k"), o = use.tensor<T, 4>("o");
    const auto reads = use.workspace<T, 4>({slots, heads, config.chunk, k});
    const auto values = use.workspace<T, 4>({slots, heads, config.chunk, v});
    const auto kept = use.workspace<U, 4>({slots, heads, k, v});
    use(chunks<T>, Grid(slots, heads), keys, use.tensor<T, 4>("v"), beta, g, starts, reads, values,
        remaining, whole, wide);
    use(states<T, U>, Grid(ceilDiv(v, config.columns), heads, count), keys, starts, reads, values,
        remaining, whole, use.tensor<float, 4>("initial_state"), kept,
        use.tensor<float, 4>("final_state"), config);
    use(outputs<T, U>, Grid(slots * ceilDiv(v, wide.columns), heads), use.tensor<T, 4>("q"), keys,
        g, starts, values, kept, o, scaleOf(call), wide);
  });
}

Config defaults(const Invocation &call, const std::string &target) {
  const DType dtype = call.tensors[0].dtype;
  const bool isHalf = dtype != DType::float32 && hasMatrixUnits(target, dtype);
  const std::int64_t width = widthOf(call);
  const std::int64_t chunk = !isHalf || call.extent("T") <= 16 ? 16
                             : call.extent("T") <= 32          ? 32
                                                               : 64;
  return {{"chunk", chunk},
          {"dv", width > 128 ? 16 : 32},
          {"warps", 4},
          {"columns", chunk < 64 ? 32 : 64},
          {"chunk_warps", chunk < 64 ? 2 : 4}};
}

} // namespace

KernelSpec sectile::deltaRuleSpec() {
  KernelSpec spec;
  spec.name = "delta_rule";
  spec.summary = "S = e^g S, u = beta (v - S^T k), S = S + k u^T at each step, o = scale S^T q";
  spec.add_arguments(inputs());
  spec.add_arguments({{"-> o: [B, T, Hv, V] like q", "of the state after the step"},
                      {"-> final_state: [N, Hv, K, V] f32",
                       "the state after each sequence",
                       {.stored = storedStates}}});
  spec.add_options(
      {{"scale: number e.g. 0.7", "of the queries; 1/sqrt(K) if not given"},
       {"qk_l2norm: flag = false", "q and k are divided by sqrt(sum of squares + 1e-6)"},
       {"gate: none|softplus|sigmoid",
        "the decay's logarithm is g, -e^A_log softplus(g + dt_bias), or lower_bound "
        "sigmoid(e^A_log (g + dt_bias)); softplus where A_log or dt_bias is given, else none",
        [](const Invocation &call) {
          return call.has("A_log") || call.has("dt_bias") ? "softplus" : "none";
        }},
       {"lower_bound: number = -5 e.g. -2", "of the logarithm with gate=sigmoid"},
       {"beta_sigmoid: flag = false", "sigmoid(beta) in place of beta"},
       {"allow_negative: flag = false", "twice that, so that eigenvalues reach -1"},
       {"state_layout: kv|vk = kv", "states as [N, Hv, K, V] or [N, Hv, V, K]"}});
  spec.config = {{"chunk", "steps of one chunk: 16, 32 or 64"},
                 {"dv", "columns of the state of one program"},
                 {"warps", "warps of that"},
                 {"columns", "columns of o of one program"},
                 {"chunk_warps", "warps of that, and of the products of a chunk"}};
  spec.typical = {{"B", 4}, {"T", 4096}, {"Hk", 16}, {"Hv", 32}, {"K", 128}, {"V", 128}, {"N1", 9}};
  spec.small = {{"B", 1}, {"T", 40}, {"Hk", 2}, {"Hv", 4}, {"K", 24}, {"V", 20}, {"N1", 4}};
  spec.follow = [](Invocation &call) { call.extents["N"] = sequences(call); };
  spec.derive = [](Invocation &call) {
    if (!call.has("initial_state"))
      call.extents["N"] = std::max<std::int64_t>(sequences(call), 0);
  };
  spec.check = check;
  spec.contents = [](const Invocation &call, std::span<const HostArray> arrays) {
    checkBoundaries(call, arrays, "cu_seqlens", call.extent("T"));
  };
  spec.reference = deltaRuleReference;
  spec.factor = 3; // by chunks more numbers are rounded than step by step
  spec.defaults = defaults;
  const auto fits = [](const Config &config, std::int64_t numbers, std::int64_t warps,
                       const std::string &target) {
    const std::int64_t chunk = config.at("chunk");
    return (chunk == 16 || chunk == 32 || chunk == 64) && numbers <= 160 * warps * warpSize(target);
  };
  spec.spaces = {
      {.part = "delta_rule_states",
       .axes = {{"chunk", {16, 32, 64}}, {"dv", {16, 32, 64, 128}}, {"warps", {2, 4, 8}}},
       .where =
           [=](const Invocation &call, const std::string &target, const Config &config) {
             const std::int64_t chunk = config.at("chunk"), dv = config.at("dv");
             return fits(config, widthOf(call) * dv + chunk * (2 * dv + widthOf(call)),
                         config.at("warps"), target);
           }},
      {.part = "delta_rule_outputs",
       .axes = {{"columns", {16, 32, 64, 128}}, {"chunk_warps", {2, 4, 8}}},
       .where = [=](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t chunk = config.at("chunk"), columns = config.at("columns");
         return fits(config, chunk * (2 * chunk + columns + widthOf(call)),
                     config.at("chunk_warps"), target);
       }}};
  spec.apply = apply;
  return spec;
}
