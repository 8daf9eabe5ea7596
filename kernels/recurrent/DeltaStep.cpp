// delta_step, rwkv7_step: a few steps of sequences whose states [V, K] lie in a pool, for decoding.
// A step is
//   S <- S e^(g + gk), u = beta (v - S k), S <- S + u k^T, o = scale S q + D v, times silu(z),
// the gated delta rule (Yang et al., arXiv 2412.06464), of each channel of the keys with gk (KDA);
// with rule=add u = beta v, as in gated linear attention, and with rule=mamba2 beta is the step's
// length softplus(g + dt_bias) (Dao and Gu, arXiv 2405.21060). That of RWKV-7 (arXiv 2503.14456) is
//   S <- S diag(e^g) + (S a) b^T + beta v k^T.
// A sequence without a row gets o = 0.
// Refused: what DeltaSpec.cpp says; from the host also rows that there are not, or that two
// sequences have.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "kernels/recurrent/DeltaSpec.h"
#include "kernels/recurrent/Family.h"
#include "kernels/registry/Contents.h"
#include <algorithm>

using namespace sectile;
using namespace sectile::delta;

namespace {

// The elements of beta and g, none where they are left out. Those of 16 bits go to one kernel.
enum class Numbers : int { none, wide, half, bfloat };

struct DeltaStepConfig {
  int dv = 32, warps = 4;
  int width = 128;     // K, up to the next multiple of 16
  bool padded = false; // that is more than K
  int group = 1;       // heads of v to one of k
  StateRule rule = StateRule::delta;
  DecayGate gate = DecayGate::none;
  Numbers beta = Numbers::none, g = Numbers::none;
  bool gk = false, A_log = false, dt_bias = false, D = false, z = false, indices = false; // given
  bool qk_l2norm = false, beta_sigmoid = false, allow_negative = false, keep_states = false;
  bool limited = false; // what softplus gives
};

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

// The numbers of rwkv7_step's gate are by channel; G is float, or what those of 16 bits are read
// as.
template <class T, class S, class G> struct Rwkv7StepArguments {
  View<const T, 4> q, k, v, a, b;
  View<const std::uint16_t, 3> beta; // or
  View<const float, 3> wide_beta;
  View<const G, 4> g;
  View<const float, 1> A_log;
  View<const float, 2> dt_bias;
  View<const float, 1> D;
  View<const T, 4> z;
  View<const std::int32_t, 1> indices;
  View<T, 4> o;
  View<S, 4> state_out;
  View<S, 5> states;
  Float scale, lower_bound, dt_min, dt_max;
};

// What the elements of 16 bits are.
Float widened(const Float &numbers, Numbers) { return numbers; }
Float widened(const Tile<std::uint16_t> &bits, Numbers elements) {
  if (elements == Numbers::half)
    return cast<float>(bitcast<half>(bits));
  return cast<float>(bitcast<bfloat16>(bits));
}
template <class E> Tile<E> numberAt(const View<const E, 1> &numbers, const Int &at) {
  return load(numbers.ptr() + cast<std::int64_t>(at) * numbers.stride(0));
}

// A step of a head of v, in one program of those that have rows of its state.
struct Place {
  Int batch, step, head, keyHead;
};

Float numberAt(const View<const std::uint16_t, 3> &narrow, const View<const float, 3> &wide,
               Numbers elements, const Place &at) {
  if (elements == Numbers::wide)
    return numberAt(wide.at(at.batch, at.step), at.head);
  return widened(numberAt(narrow.at(at.batch, at.step), at.head), elements);
}
// By channel: [width].
template <class E> Tile<E> channelsAt(const View<const E, 4> &x, const Place &at, int width) {
  return x.at(at.batch, at.step, at.head).tile(width).load(0);
}

// What a key or a query is, [1, width].
template <class T>
Tile<float> rowAt(const View<const T, 4> &x, const Place &at, int width, bool normalised = false) {
  auto row = cast<float>(x.at(at.batch, at.step, at.keyHead).tile(width).load(0));
  if (normalised)
    row = row * (1.0f / sqrt(sum(row * row, 0) + 1e-6f));
  return expand(row, 0);
}
// Of each row of the state its product with that: [dv]. Beyond K an infinity that was added, times
// 0, is NaN.
Tile<float> products(const Tile<float> &state, const Tile<float> &row, const Int &width,
                     const DeltaStepConfig &config) {
  const auto each = state * row;
  if (!config.padded)
    return sum(each, 1);
  return sum(where(expand(arange(0, config.width), 0) < width, each, 0.0f), 1);
}

Float softplus(const Float &x) { return maximum(x, 0.0f) + log1p(exp(-abs(x))); }

// The logarithm that the gate makes of g, dt_bias added, and the length of the step that softplus
// gives.
struct Gated {
  Float log, length;
};
template <class Arguments>
Gated gated(const Arguments &a, const Float &raw, const Int &head, const DeltaStepConfig &config) {
  Float speed = 1.0f;
  if (config.A_log)
    speed = exp(numberAt(a.A_log, head));
  if (config.gate == DecayGate::sigmoid)
    return {a.lower_bound * sigmoid(speed * raw), raw};
  auto length = softplus(raw);
  if (config.limited)
    length = where(length < a.dt_min, a.dt_min, where(length > a.dt_max, a.dt_max, length));
  return {speed * length * -1.0f, length};
}

// `value`, times what a step writes by: beta or, with rule=mamba2, the step's length.
template <class Arguments>
Tile<float> written(const Arguments &a, const Place &at, const Tile<float> &value, Float strength,
                    const DeltaStepConfig &config) {
  if (config.beta == Numbers::none && config.rule != StateRule::mamba2 && !config.allow_negative)
    return value;
  if (config.beta != Numbers::none)
    strength = numberAt(a.beta, a.wide_beta, config.beta, at);
  if (config.beta_sigmoid)
    strength = sigmoid(strength);
  if (config.allow_negative)
    strength = strength * 2.0f;
  return value * strength;
}

// Takes a program's rows of a state through all steps. `next` makes a step's state of the one
// before it and the step's value.
template <class Arguments, class Next>
void forEachStep(const Arguments &a, const DeltaStepConfig &config, const Next &next) {
  const int dv = config.dv, width = config.width;
  const Int column = program_id(0), head = program_id(1), batch = program_id(2);
  const Int keyHead = head / config.group;
  Int row = batch;
  if (config.indices)
    row = cast<Index>(load(a.indices.ptr() + cast<std::int64_t>(batch) * a.indices.stride(0)));
  const auto storeStates = [&](const Int &step, const Tile<float> &state) {
    if (config.keep_states)
      a.states.at(batch, step, head).tile(dv, width).store(column, 0, state);
  };
  const Int steps = a.q.extent(1);
  when(
      row >= 0 && row < a.state_out.extent(0),
      [&] {
        const auto place = a.state_out.at(row, head).tile(dv, width);
        auto state = cast<float>(place.load(column, 0));
        for (auto step : range(0, steps)) {
          const Place at{batch, step, head, keyHead};
          const auto query = rowAt(a.q, at, width, config.qk_l2norm);
          const auto value = cast<float>(a.v.at(batch, step, head).tile(dv).load(column));
          state = next(at, state, value);
          auto result = products(state, query, a.q.extent(3), config) * a.scale;
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
}

template <class T, class S>
Kernel deltaStep{
    "delta_step", [](const DeltaStepArguments<T, S> &a, const DeltaStepConfig &config) {
      forEachStep(a, config,
                  [&](const Place &at, const Tile<float> &before, const Tile<float> &value) {
                    const auto key = rowAt(a.k, at, config.width, config.qk_l2norm);
                    Float log = 0.0f, length = 1.0f;
                    if (config.g != Numbers::none)
                      log = numberAt(a.g, a.wide_g, config.g, at);
                    if (config.gate != DecayGate::none) {
                      if (config.dt_bias)
                        log = log + numberAt(a.dt_bias, at.head);
                      const Gated made = gated(a, log, at.head, config);
                      log = made.log;
                      length = made.length;
                    }
                    auto state = before;
                    if (config.gk)
                      state = state * expand(exp(channelsAt(a.gk, at, config.width) + log), 0);
                    else if (config.g != Numbers::none || config.gate != DecayGate::none)
                      state = state * exp(log);
                    auto added = value;
                    if (config.rule == StateRule::delta)
                      added = value - products(state, key, a.k.extent(3), config);
                    return state + expand(written(a, at, added, length, config), 1) * key;
                  });
    }};

template <class T, class S, class G>
Kernel rwkv7Step{
    "rwkv7_step", [](const Rwkv7StepArguments<T, S, G> &a, const DeltaStepConfig &config) {
      forEachStep(
          a, config, [&](const Place &at, const Tile<float> &before, const Tile<float> &value) {
            const int width = config.width;
            const auto key = rowAt(a.k, at, width, config.qk_l2norm);
            const auto read = products(before, rowAt(a.a, at, width), a.k.extent(3), config);
            auto logs = zeros<float>(width);
            if (config.g != Numbers::none)
              logs = widened(channelsAt(a.g, at, width), config.g);
            if (config.gate != DecayGate::none) {
              if (config.dt_bias)
                logs = logs + a.dt_bias.at(at.head).tile(width).load(0);
              logs = gated(a, logs, at.head, config).log;
            }
            auto state = before;
            if (config.g != Numbers::none || config.gate != DecayGate::none)
              state = state * expand(exp(logs), 0);
            return state + expand(read, 1) * rowAt(a.b, at, width) +
                   expand(written(a, at, value, 1.0f, config), 1) * key;
          });
    }};

void check(const Invocation &call) {
  checkSteps(call);
  if (!call.has("indices") && call.extent("P") < call.extent("B"))
    refuse(call, "without indices sequence b has row b of state, which has ", call.extent("P"),
           " rows for ", call.extent("B"), " sequences");
  if (call.options.flag("beta_sigmoid") && !call.has("beta"))
    refuse(call, "there is no beta, of which option 'beta_sigmoid' takes the sigmoid");
}

Numbers numbersOf(const Invocation &call, const char *argument) {
  if (!call.has(argument))
    return Numbers::none;
  const DType dtype = call.dtype(argument);
  return dtype == DType::float32   ? Numbers::wide
         : dtype == DType::float16 ? Numbers::half
                                   : Numbers::bfloat;
}
template <class E, int N> Tensor<std::uint16_t, N> bitsOf(const Tensor<E, N> &x) {
  return {reinterpret_cast<std::uint16_t *>(x.data()), x.extents(), x.strides(), x.memory()};
}
template <int N> Tensor<std::uint16_t, N> narrow(Use &use, const char *argument, Numbers elements) {
  switch (elements) {
  case Numbers::half:
    return bitsOf(use.tensor<half, N>(argument));
  case Numbers::bfloat:
    return bitsOf(use.tensor<bfloat16, N>(argument));
  case Numbers::none:
  case Numbers::wide:
    break;
  }
  return noTensor<std::uint16_t, N>();
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

DeltaStepConfig configOf(const Use &use) {
  const Invocation &call = use.call;
  const auto keys = std::max<std::int64_t>(use.extent("Hk"), 1);
  auto config = use.config_as<DeltaStepConfig>();
  config.width = static_cast<int>(widthOf(call));
  config.padded = widthOf(call) != use.extent("K");
  config.group = static_cast<int>(std::max<std::int64_t>(use.extent("Hv") / keys, 1));
  config.rule = ruleOf(call);
  config.beta = numbersOf(call, "beta");
  config.g = numbersOf(call, "g");
  config.limited = call.options.given("dt_min") || call.options.given("dt_max");
  return config;
}

void apply(Use &use) {
  const Invocation &call = use.call;
  const DeltaStepConfig config = configOf(use);
  const auto [least, most] = limitsOf(call);
  const double scale = scaleOf(call);
  const Grid grid(ceilDiv(use.extent("V"), config.dv), use.extent("Hv"), use.extent("B"));
  for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
    for_dtype<float, bfloat16>(call.dtype("state"), [&]<class S>(S) {
      if (config.rule != StateRule::rwkv7)
        return use(deltaStep<T, S>, grid, config,
                   {{"beta", narrow<3>(use, "beta", config.beta)},
                    {"wide_beta", wide(use, "beta", config.beta)},
                    {"g", narrow<3>(use, "g", config.g)},
                    {"wide_g", wide(use, "g", config.g)},
                    {"scale", scale},
                    {"dt_min", least},
                    {"dt_max", most}});
      const auto launch = [&]<class G>(const Tensor<G, 4> &g) {
        use(rwkv7Step<T, S, G>, grid, config,
            {{"beta", narrow<3>(use, "beta", config.beta)},
             {"wide_beta", wide(use, "beta", config.beta)},
             {"g", g},
             {"scale", scale},
             {"dt_min", least},
             {"dt_max", most}});
      };
      if (config.g == Numbers::wide)
        launch(use.tensor<float, 4>("g"));
      else
        launch(narrow<4>(use, "g", config.g));
    });
  });
}

KernelSpec specOf(const char *name, const char *summary, bool isRwkv) {
  KernelSpec spec;
  spec.name = name;
  spec.summary = summary;
  const DeltaForm form{.isByChannel = isRwkv, .isRwkv = isRwkv, .hasPool = true};
  spec.add_arguments(inputs(form));
  spec.add_arguments(
      {{"-> o: [B, T, Hv, V] like q", "of the state after each step; 0 where there is no row"},
       {"-> state_out: [P, Hv, V, K] like state updates state",
        "after the last step",
        {.stored = storedStates}},
       {"-> states: [B, T, Hv, V, K] like state with keep_states",
        "after each step; 0 where there is no row",
        {.stored = storedStates}}});
  spec.add_options(options(form));
  spec.config = {{"dv", "rows of a state, of which v has one each, of one program"},
                 {"warps", "warps of one program"}};
  const std::int64_t width = isRwkv ? 64 : 128, keys = isRwkv ? 32 : 16;
  spec.typical = {{"B", 64},    {"T", 1},     {"Hk", keys}, {"Hv", 32},
                  {"K", width}, {"V", width}, {"P", 256}};
  spec.small = {{"B", 3}, {"T", 2}, {"Hk", 2}, {"Hv", 4}, {"K", 24}, {"V", 20}, {"P", 5}};
  spec.batch.push_back("P");
  if (isRwkv)
    spec.sample_dependent = sampleWrites;
  spec.check = check;
  spec.contents = [](const Invocation &call, std::span<const HostArray> inputs) {
    checkRows(call, inputs, "indices", call.extent("P"));
  };
  spec.reference = deltaStepReference;
  spec.defaults = defaults;
  spec.spaces = {
      {.part = name,
       .axes = {{"dv", {4, 8, 16, 32, 64}}, {"warps", {1, 2, 4, 8}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t numbers =
             config.at("dv") * widthOf(call) / (config.at("warps") * warpSize(target));
         return numbers >= 4 && numbers <= 64 &&
                (config.at("dv") == 4 || config.at("dv") < 2 * call.extent("V"));
       }}};
  spec.apply = apply;
  return spec;
}

} // namespace

KernelSpec sectile::deltaStepSpec() {
  return specOf("delta_step",
                "steps of the gated delta rule, KDA or Mamba-2, with states in a pool, for "
                "decoding",
                false);
}

KernelSpec sectile::rwkv7StepSpec() {
  return specOf("rwkv7_step", "steps of RWKV-7, with states in a pool, for decoding", true);
}
