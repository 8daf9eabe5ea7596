// delta_step: a few steps of sequences whose states [V, K] lie in a pool, for decoding. A step is
//   S <- S e^(g + gk), u = beta (v - S k), S <- S + u k^T, o = scale S q + D v, times silu(z),
// the gated delta rule (Yang et al., arXiv 2412.06464), of each channel of the keys with gk (KDA);
// with rule=add u = beta v, as in gated linear attention, and with rule=mamba2 beta is the step's
// length softplus(g + dt_bias) (Dao and Gu, arXiv 2405.21060). A sequence without a row gets o = 0.
// Refused: Hv that is no multiple of Hk, K beyond 256, options and inputs that do not go together;
// from the host also rows that there are not, or that two sequences have.
#include "kernels/recurrent/DeltaStep.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "kernels/recurrent/DeltaGates.h"
#include "kernels/recurrent/Family.h"
#include "kernels/references/Sample.h"
#include "kernels/registry/Contents.h"
#include <algorithm>
#include <cmath>

using namespace sectile;
using namespace sectile::delta_step;

namespace {

// The elements of beta and g, none where they are left out. Those of 16 bits go to one kernel.
enum class Numbers : int { none, wide, half, bfloat };

struct DeltaStepConfig {
  int dv = 32, warps = 4;
  int width = 128; // K, up to the next multiple of 16
  int group = 1;   // heads of v to one of k
  Rule rule = Rule::delta;
  Gate gate = Gate::none;
  Numbers beta = Numbers::none, g = Numbers::none;
  bool gk = false, A_log = false, dt_bias = false, D = false, z = false, indices = false; // given
  bool l2norm = false, sigmoid = false, twice = false, kept = false;
  bool limited = false; // what softplus gives
};
SECTILE_CONFIG(DeltaStepConfig, dv, warps, width, group, rule, gate, beta, g, gk, A_log, dt_bias, D,
               z, indices, l2norm, sigmoid, twice, kept, limited)

template <class T, class S> struct DeltaStepArguments {
  View<const T, 4> q, k, v;
  View<const std::uint16_t, 3> beta, g; // or
  View<const float, 3> wide_beta, wide_g;
  View<const float, 4> gk;
  View<const float, 1> A_log, dt_bias, D;
  View<const T, 4> z;
  View<const std::int32_t, 1> indices;
  View<T, 4> o;
  View<S, 4> state_out;
  View<S, 5> states;
  Float scale, lower_bound, dt_min, dt_max;
};
template <class T, class S>
SECTILE_STRUCT((DeltaStepArguments<T, S>), q, k, v, beta, g, wide_beta, wide_g, gk, A_log, dt_bias,
               D, z, indices, o, state_out, states, scale, lower_bound, dt_min, dt_max)

template <class E>
Tile<E> numberAt(const View<const E, 1> &numbers, const Int &at) {
  return load(numbers.ptr() + cast<std::int64_t>(at) * numbers.stride(0));
}
Float numberAt(const View<const std::uint16_t, 3> &narrow, const View<const float, 3> &wide,
               Numbers elements, const Int &batch, const Int &step, const Int &head) {
  if (elements == Numbers::wide)
    return numberAt(wide.at(batch, step), head);
  const auto bits = numberAt(narrow.at(batch, step), head);
  if (elements == Numbers::half)
    return cast<float>(bitcast<half>(bits));
  return cast<float>(bitcast<bfloat16>(bits));
}
Float softplus(const Float &x) { return maximum(x, 0.0f) + log1p(exp(-abs(x))); }

// A head of a step, what it writes by and how the state decays; logarithms.
struct Strength {
  Float beta = 1.0f, decay = 0.0f;
};
template <class T, class S>
Strength strengthOf(const DeltaStepArguments<T, S> &a, const Int &batch, const Int &step,
                    const Int &head, const DeltaStepConfig &config) {
  Strength result;
  if (config.g != Numbers::none)
    result.decay = numberAt(a.g, a.wide_g, config.g, batch, step, head);
  if (config.gate != Gate::none) {
    Float raw = result.decay;
    if (config.dt_bias)
      raw = raw + numberAt(a.dt_bias, head);
    Float speed = 1.0f;
    if (config.A_log)
      speed = exp(numberAt(a.A_log, head));
    Float length = softplus(raw);
    if (config.limited)
      length = where(length < a.dt_min, a.dt_min, where(length > a.dt_max, a.dt_max, length));
    if (config.rule == Rule::mamba2)
      result.beta = length;
    result.decay = config.gate == Gate::softplus ? Float(speed * length * -1.0f)
                                                 : Float(a.lower_bound * sigmoid(speed * raw));
  }
  if (config.beta != Numbers::none)
    result.beta = numberAt(a.beta, a.wide_beta, config.beta, batch, step, head);
  if (config.sigmoid)
    result.beta = sigmoid(result.beta);
  if (config.twice)
    result.beta = result.beta * 2.0f;
  return result;
}

template <class T, class S>
Kernel deltaStep{
    "delta_step", [](const DeltaStepArguments<T, S> &a, const DeltaStepConfig &config) {
      const int dv = config.dv, width = config.width;
      const Int column = program_id(0), head = program_id(1), batch = program_id(2);
      const Int keyHead = head / config.group;
      Int row = batch;
      if (config.indices)
        row = cast<Index>(load(a.indices.ptr() + cast<std::int64_t>(batch) * a.indices.stride(0)));
      // Of one step, [1, width], normalised where that is wanted.
      const auto keyOf = [&](const View<const T, 4> &keys, const Int &step) {
        auto key = cast<float>(keys.at(batch, step, keyHead).tile(width).load(0));
        if (config.l2norm)
          key = key * (1.0f / sqrt(sum(key * key, 0) + 1e-6f));
        return expand(key, 0);
      };
      const auto storeStates = [&](const Int &step, const Tile<float> &state) {
        if (config.kept)
          a.states.at(batch, step, head).tile(dv, width).store(column, 0, state);
      };
      const Int steps = a.q.extent(1);
      when(
          row >= 0 && row < a.state_out.extent(0),
          [&] {
            const auto place = a.state_out.at(row, head).tile(dv, width);
            auto state = cast<float>(place.load(column, 0));
            for (auto step : range(0, steps)) {
              const auto key = keyOf(a.k, step), query = keyOf(a.q, step);
              const auto value = cast<float>(a.v.at(batch, step, head).tile(dv).load(column));
              const auto strength = strengthOf(a, batch, step, head, config);
              if (config.gk)
                state =
                    state *
                    expand(exp(a.gk.at(batch, step, head).tile(width).load(0) + strength.decay), 0);
              else if (config.g != Numbers::none || config.gate != Gate::none)
                state = state * exp(strength.decay);
              auto added = value;
              if (config.rule == Rule::delta)
                added = value - sum(state * key, 1);
              if (config.beta != Numbers::none || config.rule == Rule::mamba2 || config.twice)
                added = added * strength.beta;
              state = state + expand(added, 1) * key;
              auto result = sum(state * query, 1) * a.scale;
              if (config.D)
                result = result + value * numberAt(a.D, head);
              if (config.z) {
                const auto gate = cast<float>(a.z.at(batch, step, head).tile(dv).load(column));
                result = result * gate * sigmoid(gate);
              }
              a.o.at(batch, step, head).tile(dv).store(column, result);
              storeStates(step, state);
            }
            place.store(column, 0, state);
          },
          [&] {
            for (auto step : range(0, steps)) {
              a.o.at(batch, step, head).tile(dv).store(column, zeros<float>(dv));
              storeStates(step, zeros<float>(dv, width));
            }
          });
    }};

std::vector<std::string> storedStates(std::vector<std::string> axes, const OptionValues &options) {
  if (options.choice("state_layout") == "kv")
    std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return axes;
}

// Keys of about length 1, with which the delta rule neither grows nor forgets at once.
void sampleKeys(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  const auto width = static_cast<double>(std::max<std::int64_t>(call.extent("K"), 1));
  sampleNormal(1 / std::sqrt(width))(call, array, random);
}
void sampleLogs(const Invocation &, HostArray &logs, std::mt19937_64 &random) {
  std::normal_distribution<double> normal;
  fillDrawn(logs, [&] { return -0.5 * std::abs(normal(random)); });
}

Rule ruleOf(const Invocation &call) {
  const std::string &rule = call.options.choice("rule");
  return rule == "delta" ? Rule::delta : rule == "add" ? Rule::add : Rule::mamba2;
}
Gate gateOf(const Invocation &call) {
  const std::string &gate = call.options.choice("gate");
  return gate == "none" ? Gate::none : gate == "softplus" ? Gate::softplus : Gate::sigmoid;
}

void check(const Invocation &call) {
  const std::int64_t keys = call.extent("Hk"), values = call.extent("Hv");
  if (values != 0 && (keys == 0 || values % keys != 0))
    refuse(call, "Hv is " + std::to_string(values) + ", but must be a multiple of Hk, " +
                     std::to_string(keys));
  if (call.extent("K") > 256)
    refuse(call, "K is " + std::to_string(call.extent("K")) + ", but must be at most 256");
  if (!call.has("indices") && call.extent("P") < call.extent("B"))
    refuse(call, "without indices sequence b has row b of state, which has " +
                     std::to_string(call.extent("P")) + " rows for " +
                     std::to_string(call.extent("B")) + " sequences");
  if (gateOf(call) == Gate::none)
    for (const char *input : {"A_log", "dt_bias"})
      if (call.has(input))
        refuse(call, std::string(input) + " is the gate's: option 'gate' cannot be none with it");
  if (ruleOf(call) == Rule::mamba2) {
    if (call.has("beta"))
      refuse(call, "with rule=mamba2 beta is softplus(g + dt_bias): leave beta out");
    if (gateOf(call) != Gate::softplus)
      refuse(call, "with rule=mamba2 option 'gate' must be softplus");
  }
  if (call.options.flag("beta_sigmoid") && !call.has("beta"))
    refuse(call, "there is no beta, of which option 'beta_sigmoid' takes the sigmoid");
  delta::checkLimits(call);
}

std::int64_t widthOf(const Invocation &call) {
  return std::max<std::int64_t>(ceilDiv(call.extent("K"), 16), 1) * 16;
}

Numbers numbersOf(const Invocation &call, const char *argument) {
  if (!call.has(argument))
    return Numbers::none;
  const DType dtype = call.dtype(argument);
  return dtype == DType::float32   ? Numbers::wide
         : dtype == DType::float16 ? Numbers::half
                                   : Numbers::bfloat;
}
template <class E> Tensor<std::uint16_t, 3> bitsOf(const Tensor<E, 3> &x) {
  return {reinterpret_cast<std::uint16_t *>(x.data()), x.extents(), x.strides(), x.memory()};
}
Tensor<std::uint16_t, 3> narrow(Use &use, const char *argument, Numbers elements) {
  switch (elements) {
  case Numbers::half:
    return bitsOf(use.tensor<half, 3>(argument));
  case Numbers::bfloat:
    return bitsOf(use.tensor<bfloat16, 3>(argument));
  case Numbers::none:
  case Numbers::wide:
    break;
  }
  return noTensor<std::uint16_t, 3>();
}
Tensor<float, 3> wide(Use &use, const char *argument, Numbers elements) {
  return elements == Numbers::wide ? use.tensor<float, 3>(argument) : noTensor<float, 3>();
}

Config defaults(const Invocation &call, const std::string &target) {
  // Two programs and more for each multiprocessor, of as many columns as leave a thread 32 numbers
  // of the state.
  const std::int64_t heads = std::max<std::int64_t>(call.extent("B") * call.extent("Hv"), 1),
                     width = powerAtLeast(widthOf(call)),
                     wanted = ceilDiv(2 * multiprocessors(target), heads),
                     columns = powerAtLeast(std::max<std::int64_t>(call.extent("V"), 1)),
                     dv = std::clamp<std::int64_t>(columns / powerAtLeast(wanted), 8, 32),
                     warps = std::clamp<std::int64_t>(dv * width / (32 * warpSize(target)), 1, 8);
  return {{"dv", dv}, {"warps", powerAtMost(warps)}};
}

} // namespace

KernelSpec sectile::deltaStepSpec() {
  KernelSpec spec;
  spec.name = "delta_step";
  spec.summary =
      "steps of the gated delta rule, KDA or Mamba-2, with states in a pool, for decoding";
  const ArgumentRow::Functions stored{.stored = storedStates};
  spec.add_arguments(
      {{"q: [B, T, Hk, K] f16|bf16|f32",
        "queries of T new steps of B sequences; K is at most 256",
        {.sample = sampleKeys}},
       {"k: [B, T, Hk, K] like q", "keys", {.sample = sampleKeys}},
       {"v: [B, T, Hv, V] like q", "values; Hv is a multiple of Hk"},
       {"beta?: [B, T, Hv] f32|f16|bf16",
        "how much of what the key stood for is replaced; 1 if left out",
        {.sample = sampleUniform(0, 1)}},
       {"g?: [B, T, Hv] f32|f16|bf16",
        "logarithm of each step's decay, or what the gate makes it of; 0 if left out",
        {.sample = sampleLogs}},
       {"gk?: [B, T, Hv, K] f32",
        "the same for each channel of the keys, without a gate; added to g",
        {.sample = sampleLogs}},
       {"A_log?: [Hv] f32", "of the gate; 0 if left out", {.sample = sampleUniform(-1, 1)}},
       {"dt_bias?: [Hv] f32", "of the gate; 0 if left out"},
       {"D?: [Hv] f32", "D v is added to o; 0 if left out"},
       {"z?: [B, T, Hv, V] like q", "o is multiplied by silu(z)"},
       {"state: [P, Hv, V, K] f32|bf16", "the states of sequences", stored},
       {"indices?: [B] i32",
        "sequence b has row indices[b] of state; none if that is -1. Row b if left out",
        {.sample = sampleRows("P")}},
       {"-> o: [B, T, Hv, V] like q", "of the state after each step; 0 where there is no row"},
       {"-> state_out: [P, Hv, V, K] like state updates state", "after the last step", stored},
       {"-> states: [B, T, Hv, V, K] like state with keep_states",
        "after each step; 0 where there is no row", stored}});
  spec.add_options(
      {{"rule: delta|add|mamba2 = delta",
        "a step adds beta (v - S k), beta v, or beta v with beta = softplus(g + dt_bias)"},
       {"scale: number e.g. 0.7", "of the queries; 1/sqrt(K) if not given, with mamba2 1"},
       {"qk_l2norm: flag = false", "q and k are divided by sqrt(sum of squares + 1e-6)"},
       {"gate: none|softplus|sigmoid",
        "the decay's logarithm is g, -e^A_log softplus(g + dt_bias), or lower_bound "
        "sigmoid(e^A_log (g + dt_bias)); softplus where A_log or dt_bias is given or with mamba2, "
        "else none",
        [](const Invocation &call) {
          return call.has("A_log") || call.has("dt_bias") || ruleOf(call) == Rule::mamba2
                     ? "softplus"
                     : "none";
        }},
       {"lower_bound: number = -5 e.g. -2", "of the logarithm with gate=sigmoid"},
       {"dt_min: number e.g. 0.1", "softplus gives at least that; 0 if not given"},
       {"dt_max: number e.g. 0.9", "softplus gives at most that; no limit if not given"},
       {"beta_sigmoid: flag = false", "sigmoid(beta) in place of beta"},
       {"allow_negative: flag = false", "twice that, so that eigenvalues reach -1"},
       {"state_layout: vk|kv = vk", "states as [P, Hv, V, K] or [P, Hv, K, V]"},
       {"keep_states: flag = false", "states is an output: what drafted tokens can go back to"}});
  spec.config = {{"dv", "rows of a state, of which v has one each, of one program"},
                 {"warps", "warps of one program"}};
  spec.typical = {{"B", 64}, {"T", 1}, {"Hk", 16}, {"Hv", 32}, {"K", 128}, {"V", 128}, {"P", 256}};
  spec.small = {{"B", 3}, {"T", 2}, {"Hk", 2}, {"Hv", 4}, {"K", 24}, {"V", 20}, {"P", 5}};
  spec.batch.push_back("P");
  spec.check = check;
  spec.contents = [](const Invocation &call, std::span<const HostArray> inputs) {
    checkRows(call, inputs, "indices", call.extent("P"));
  };
  spec.reference = reference;
  spec.defaults = defaults;
  spec.spaces = {
      {.part = "delta_step",
       .axes = {{"dv", {4, 8, 16, 32, 64}}, {"warps", {1, 2, 4, 8}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t numbers =
             config.at("dv") * widthOf(call) / (config.at("warps") * warpSize(target));
         return numbers >= 4 && numbers <= 64 &&
                (config.at("dv") == 4 || config.at("dv") < 2 * call.extent("V"));
       }}};
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    const auto keys = std::max<std::int64_t>(use.extent("Hk"), 1);
    auto config = use.config_as(DeltaStepConfig{
        .width = static_cast<int>(widthOf(call)),
        .group = static_cast<int>(std::max<std::int64_t>(use.extent("Hv") / keys, 1)),
        .rule = ruleOf(call),
        .gate = gateOf(call),
        .l2norm = call.options.flag("qk_l2norm"),
        .sigmoid = call.options.flag("beta_sigmoid"),
        .twice = call.options.flag("allow_negative"),
        .kept = call.options.flag("keep_states"),
        .limited = call.options.given("dt_min") || call.options.given("dt_max")});
    const delta::Limits limits = delta::limitsOf(call);
    config.beta = numbersOf(call, "beta");
    config.g = numbersOf(call, "g");
    for (const auto &[given, name] : {std::pair(&config.gk, "gk"),
                                      {&config.A_log, "A_log"},
                                      {&config.dt_bias, "dt_bias"},
                                      {&config.D, "D"},
                                      {&config.z, "z"},
                                      {&config.indices, "indices"}})
      *given = use.has(name);
    const Grid grid(ceilDiv(use.extent("V"), config.dv), use.extent("Hv"), use.extent("B"));
    const float scale =
        call.options.given("scale") ? static_cast<float>(call.options.number("scale"))
        : config.rule == Rule::mamba2
            ? 1.0f
            : static_cast<float>(
                  1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(use.extent("K"), 1))));
    for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
      for_dtype<float, bfloat16>(call.dtype("state"), [&]<class S>(S) {
        use(deltaStep<T, S>, grid, config,
            {{"beta", narrow(use, "beta", config.beta)},
             {"g", narrow(use, "g", config.g)},
             {"wide_beta", wide(use, "beta", config.beta)},
             {"wide_g", wide(use, "g", config.g)},
             {"scale", scale},
             {"dt_min", static_cast<float>(limits.least)},
             {"dt_max", static_cast<float>(limits.most)}});
      });
    });
  };
  return spec;
}
