// The numbers by step and head of the delta rule, and their gradients.
#include "kernels/recurrent/DeltaGates.h"
#include "kernels/blocks/Activations.h"
#include "kernels/recurrent/DeltaSpec.h"
#include "kernels/recurrent/LinearRecurrence.h"

using namespace sectile;
using namespace sectile::delta;

namespace {

struct GateConfig {
  int steps = 64, heads = 16, warps = 4;
  GateForm form = GateForm::same;
  bool x = true, a_log = false, dt_bias = false; // given
  bool limited = false;                          // what softplus gives
  bool both = false;                             // there is the gradient of steps' lengths, too
};

// Some steps and heads: the sum that the form is of, and e^A_log.
struct Raw {
  Tile<float> value, speed;
};
template <class T>
Raw rawOf(const View<const T, 3> &x, const View<const float, 1> &logs,
          const View<const float, 1> &bias, const Int &batch, const Int &block, const Int &head,
          const GateConfig &config) {
  Raw raw{zeros<float>(config.steps, config.heads), full<float>(1, 1, config.heads)};
  if (config.x)
    raw.value = cast<float>(x.at(batch).tile(config.steps, config.heads).load(block, head));
  if (config.a_log)
    raw.speed = exp(expand(logs.tile(config.heads).load(head), 0));
  if (config.dt_bias)
    raw.value += expand(bias.tile(config.heads).load(head), 0);
  return raw;
}

// softplus of the sums, within the limits.
Tile<float> lengths(const Tile<float> &value, const Float &least, const Float &most,
                    const GateConfig &config) {
  const auto length = activate(Activation::softplus, value);
  if (!config.limited)
    return length;
  return where(length < least, least, where(length > most, most, length));
}

// What the form makes of them.
Tile<float> formed(const Raw &raw, const Float &least, const Float &most,
                   const GateConfig &config) {
  switch (config.form) {
  case GateForm::same:
    break;
  case GateForm::sigmoid:
    return sigmoid(raw.value);
  case GateForm::softplus:
    return raw.speed * lengths(raw.value, least, most, config);
  case GateForm::step:
    return lengths(raw.value, least, most, config);
  case GateForm::bounded:
    return sigmoid(raw.speed * raw.value);
  }
  return raw.value;
}

template <class T>
Kernel gates{"delta_rule_gates",
             [](View<const T, 3> x, View<const float, 1> logs, View<const float, 1> bias,
                View<float, 3> y, Float factor, Float least, Float most, const GateConfig &config) {
               auto heads = cdiv(y.extent(2), config.heads);
               auto block = program_id(0) / heads, head = program_id(0) % heads,
                    batch = program_id(1);
               const auto raw = rawOf(x, logs, bias, batch, block, head, config);
               y.at(batch)
                   .tile(config.steps, config.heads)
                   .store(block, head, formed(raw, least, most, config) * factor);
             }};

// The same of one head, by channels of the keys, which take the place of heads in the
// configuration.
template <class T>
Raw channelsOf(const View<const T, 4> &x, const View<const float, 1> &logs,
               const View<const float, 2> &bias, const Int &batch, const Int &block,
               const Int &head, const Int &channel, const GateConfig &config) {
  Raw raw{zeros<float>(config.steps, config.heads), full<float>(1, 1, config.heads)};
  if (config.x)
    raw.value =
        cast<float>(x.at(batch).fix(1, head).tile(config.steps, config.heads).load(block, channel));
  if (config.a_log)
    raw.speed *= exp(load(logs.ptr() + cast<std::int64_t>(head) * logs.stride(0)));
  if (config.dt_bias)
    raw.value += expand(bias.at(head).tile(config.heads).load(channel), 0);
  return raw;
}

template <class T>
Kernel channelGates{
    "delta_rule_channel_gates",
    [](View<const T, 4> x, View<const float, 1> logs, View<const float, 2> bias, View<float, 4> y,
       Float factor, Float least, Float most, const GateConfig &config) {
      auto blocks = cdiv(y.extent(3), config.heads);
      auto block = program_id(0) / blocks, channel = program_id(0) % blocks, head = program_id(1),
           batch = program_id(2);
      const auto raw = channelsOf(x, logs, bias, batch, block, head, channel, config);
      y.at(batch)
          .fix(1, head)
          .tile(config.steps, config.heads)
          .store(block, channel, formed(raw, least, most, config) * factor);
    }};

// What the gradient `of` what the form makes gives to the sum that the form is of, and to A_log.
// With GateConfig::both `ofLengths` is the gradient of steps' lengths.
struct RawGradient {
  Tile<float> of, ofLogs;
};
RawGradient throughForm(const Raw &raw, Tile<float> gradient, const Tile<float> &ofLengths,
                        const Float &least, const Float &most, const GateConfig &config) {
  const auto &[value, speed] = raw;
  auto ofLogs = zeros<float>(config.steps, config.heads);
  if (config.form == GateForm::sigmoid) {
    gradient *= sigmoid(value) * sigmoid(-value);
  } else if (config.form == GateForm::softplus) {
    const auto length = lengths(value, least, most, config);
    gradient *= speed;
    ofLogs = gradient * length;
    if (config.both)
      gradient += ofLengths;
    gradient *= sigmoid(value);
    if (config.limited) {
      const auto free = activate(Activation::softplus, value);
      gradient = where((free < least) | (free > most), 0.0f, gradient);
    }
  } else if (config.form == GateForm::bounded) {
    const auto fast = speed * value;
    gradient *= sigmoid(fast) * sigmoid(-fast);
    ofLogs = gradient * fast;
    gradient *= speed;
  }
  return {gradient, ofLogs};
}

// dx, and sums over the program's steps for A_log and dt_bias: parts [2, programs, Hv].
template <class T>
Kernel gateGradients{
    "delta_rule_gate_gradients",
    [](View<const T, 3> x, View<const float, 1> logs, View<const float, 1> bias,
       View<const float, 3> dy, View<const float, 3> lengthGradient, View<T, 3> dx,
       View<float, 3> parts, Float factor, Float least, Float most, const GateConfig &config) {
      auto heads = cdiv(dy.extent(2), config.heads), blocks = cdiv(dy.extent(1), config.steps);
      auto block = program_id(0) / heads, head = program_id(0) % heads, batch = program_id(1);
      const auto of = [&](const auto &all) {
        return all.at(batch).tile(config.steps, config.heads);
      };
      auto ofLengths = zeros<float>(config.steps, config.heads);
      if (config.both)
        ofLengths = of(lengthGradient).load(block, head);
      const auto [gradient, ofLogs] =
          throughForm(rawOf(x, logs, bias, batch, block, head, config),
                      of(dy).load(block, head) * factor, ofLengths, least, most, config);
      if (config.x)
        of(dx).store(block, head, gradient);
      if (config.form == GateForm::softplus || config.form == GateForm::bounded) {
        auto place = batch * blocks + block;
        parts.at(0, place).tile(config.heads).store(head, sum(ofLogs, 0));
        parts.at(1, place).tile(config.heads).store(head, sum(gradient, 0));
      }
    }};

// The same by channels: sums for A_log [programs, Hv], where programs of a head's channels are
// neighbours, and for dt_bias [B * blocks of steps, Hv, K].
template <class T>
Kernel channelGateGradients{
    "delta_rule_channel_gate_gradients",
    [](View<const T, 4> x, View<const float, 1> logs, View<const float, 2> bias,
       View<const float, 4> dy, View<T, 4> dx, View<float, 2> ofLogs, View<float, 3> ofBias,
       Float factor, Float least, Float most, const GateConfig &config) {
      auto columns = cdiv(dy.extent(3), config.heads), blocks = cdiv(dy.extent(1), config.steps);
      auto block = program_id(0) / columns, channel = program_id(0) % columns, head = program_id(1),
           batch = program_id(2);
      const auto of = [&](const auto &all) {
        return all.at(batch).fix(1, head).tile(config.steps, config.heads);
      };
      const auto raw = channelsOf(x, logs, bias, batch, block, head, channel, config);
      const auto [gradient, forLogs] =
          throughForm(raw, of(dy).load(block, channel) * factor,
                      zeros<float>(config.steps, config.heads), least, most, config);
      if (config.x)
        of(dx).store(block, channel, gradient);
      if (config.form == GateForm::softplus || config.form == GateForm::bounded) {
        auto place = batch * blocks + block;
        ofLogs.at(place * columns + channel)
            .tile(1)
            .store(head, full<float>(sum(sum(forLogs, 0), 0), 1));
        ofBias.at(place, head).tile(config.heads).store(channel, sum(gradient, 0));
      }
    }};

// Sums over the first axis.
Kernel gateSums{"delta_rule_gate_sums",
                [](View<const float, 3> parts, View<float, 2> sums, const GateConfig &config) {
                  auto at = program_id(0), row = program_id(1);
                  auto from = parts.fix(1, row).tile(config.steps, config.heads);
                  auto total = zeros<float>(config.steps, config.heads);
                  for (auto block : range(0, cdiv(parts.extent(0), config.steps)))
                    total += from.load(block, at);
                  sums.at(row).tile(config.heads).store(at, sum(total, 0));
                }};

GateConfig configOf(const Use &use, const GateNumbers &numbers) {
  return {.heads = isByChannel(use.call) && std::string_view(numbers.name) == "g" ? 64 : 16,
          .form = numbers.form,
          .x = use.has(numbers.name),
          .a_log = numbers.isGate() && numbers.form != GateForm::step && use.has("A_log"),
          .dt_bias = numbers.isGate() && use.has("dt_bias"),
          .limited = numbers.least > 0 || numbers.most < std::numeric_limits<float>::infinity()};
}

std::int64_t programs(const Use &use, const GateConfig &config) {
  return ceilDiv(use.extent("T"), config.steps) * ceilDiv(use.extent("Hv"), config.heads);
}

DType typeOf(const Use &use, const GateNumbers &numbers) {
  return use.has(numbers.name) ? use.call.dtype(numbers.name) : DType::float32;
}

void launchSums(Use &use, const Tensor<float, 3> &parts, const Tensor<float, 2> &sums) {
  const GateConfig config;
  use(gateSums, Grid(ceilDiv(sums.extent(1), config.heads), sums.extent(0)), parts, sums, config);
}

} // namespace

GateNumbers delta::strengthsOf(const Invocation &call) {
  if (ruleOf(call) == StateRule::mamba2) {
    GateNumbers steps = decaysOf(call);
    steps.form = GateForm::step;
    steps.factor = 1;
    return steps;
  }
  return {"beta", call.options.flag("beta_sigmoid") ? GateForm::sigmoid : GateForm::same,
          call.options.flag("allow_negative") ? 2.0f : 1.0f};
}

GateNumbers delta::decaysOf(const Invocation &call) {
  const std::string &gate = call.options.choice("gate");
  if (gate == "softplus") {
    const Limits limits = limitsOf(call);
    return {"g", GateForm::softplus, -1, static_cast<float>(limits.least),
            static_cast<float>(limits.most)};
  }
  if (gate == "sigmoid")
    return {"g", GateForm::bounded, static_cast<float>(call.options.number("lower_bound"))};
  return {"g", GateForm::same, 1};
}

Tensor<float, 3> delta::inFloat(Use &use, const GateNumbers &numbers) {
  if (!numbers.isGiven(use.call))
    return noTensor<float, 3>();
  if (numbers.isPlain(use.call))
    return use.tensor<float, 3>(numbers.name);
  const auto result = use.workspace<float, 3>({use.extent("B"), use.extent("T"), use.extent("Hv")});
  const GateConfig config = configOf(use, numbers);
  for_dtype<float, half, bfloat16>(typeOf(use, numbers), [&]<class T>(T) {
    // Of beta it may be [Hv, K], and is not read.
    use(gates<T>, Grid(programs(use, config), use.extent("B")), use.tensor<T, 3>(numbers.name),
        use.tensor<float, 1>("A_log"),
        config.dt_bias ? use.tensor<float, 1>("dt_bias") : noTensor<float, 1>(), result,
        numbers.factor, numbers.least, numbers.most, config);
  });
  return result;
}

Tensor<float, 4> delta::channelsInFloat(Use &use, const GateNumbers &numbers) {
  if (!numbers.isGiven(use.call))
    return noTensor<float, 4>();
  if (numbers.isPlain(use.call))
    return use.tensor<float, 4>(numbers.name);
  const std::int64_t batches = use.extent("B"), steps = use.extent("T"), heads = use.extent("Hv"),
                     channels = use.extent("K");
  const auto result = use.workspace<float, 4>({batches, steps, heads, channels});
  const GateConfig config = configOf(use, numbers);
  for_dtype<float, half, bfloat16>(typeOf(use, numbers), [&]<class T>(T) {
    use(channelGates<T>,
        Grid(ceilDiv(steps, config.steps) * ceilDiv(channels, config.heads), heads, batches),
        use.tensor<T, 4>(numbers.name), use.tensor<float, 1>("A_log"),
        use.tensor<float, 2>("dt_bias"), result, numbers.factor, numbers.least, numbers.most,
        config);
  });
  return result;
}

template <int N> Tensor<float, N> delta::gradientOf(Use &use, const GateNumbers &numbers) {
  if (!numbers.isGiven(use.call))
    return noTensor<float, N>();
  if (numbers.isPlain(use.call))
    return use.tensor<float, N>("d" + std::string(numbers.name));
  std::array<std::int64_t, N> extents{use.extent("B"), use.extent("T"), use.extent("Hv")};
  if constexpr (N == 4)
    extents[3] = use.extent("K");
  return use.workspace<float, N>(extents);
}
template Tensor<float, 3> delta::gradientOf(Use &, const GateNumbers &);
template Tensor<float, 4> delta::gradientOf(Use &, const GateNumbers &);

void delta::launchGradients(Use &use, const GateNumbers &numbers, const Tensor<float, 3> &gradient,
                            const Tensor<float, 3> &ofSteps) {
  if (!numbers.isGiven(use.call) || numbers.isPlain(use.call))
    return;
  GateConfig config = configOf(use, numbers);
  config.both = ofSteps.data() != nullptr;
  const std::int64_t heads = use.extent("Hv"),
                     count = use.extent("B") * ceilDiv(use.extent("T"), config.steps);
  const auto parts =
      numbers.isGate() ? use.workspace<float, 3>({2, count, heads}) : noTensor<float, 3>();
  for_dtype<float, half, bfloat16>(typeOf(use, numbers), [&]<class T>(T) {
    use(gateGradients<T>, Grid(programs(use, config), use.extent("B")),
        use.tensor<T, 3>(numbers.name), use.tensor<float, 1>("A_log"),
        config.dt_bias ? use.tensor<float, 1>("dt_bias") : noTensor<float, 1>(), gradient,
        config.both ? ofSteps : noTensor<float, 3>(),
        use.tensor<T, 3>("d" + std::string(numbers.name)), parts, numbers.factor, numbers.least,
        numbers.most, config);
  });
  if (!numbers.isGate())
    return;
  for (int i = 0; i < 2; ++i)
    if (const char *name = i ? "dt_bias" : "A_log"; use.has(name))
      launchHeadSums(use, oneOf(parts, i), use.tensor<float, 1>("d" + std::string(name)));
}

void delta::launchChannelGradients(Use &use, const GateNumbers &numbers,
                                   const Tensor<float, 4> &gradient) {
  if (!numbers.isGiven(use.call) || numbers.isPlain(use.call))
    return;
  const GateConfig config = configOf(use, numbers);
  const std::int64_t batches = use.extent("B"), heads = use.extent("Hv"),
                     channels = use.extent("K"), blocks = ceilDiv(use.extent("T"), config.steps),
                     columns = ceilDiv(channels, config.heads);
  auto ofLogs = noTensor<float, 2>();
  auto ofBias = noTensor<float, 3>();
  if (numbers.isGate()) {
    ofLogs = use.workspace<float, 2>({batches * blocks * columns, heads});
    ofBias = use.workspace<float, 3>({batches * blocks, heads, channels});
  }
  for_dtype<float, half, bfloat16>(typeOf(use, numbers), [&]<class T>(T) {
    use(channelGateGradients<T>, Grid(blocks * columns, heads, batches),
        use.tensor<T, 4>(numbers.name), use.tensor<float, 1>("A_log"),
        use.tensor<float, 2>("dt_bias"), gradient,
        use.tensor<T, 4>("d" + std::string(numbers.name)), ofLogs, ofBias, numbers.factor,
        numbers.least, numbers.most, config);
  });
  if (numbers.isGate() && use.has("A_log"))
    launchHeadSums(use, ofLogs, use.tensor<float, 1>("dA_log"));
  if (numbers.isGate() && use.has("dt_bias"))
    launchSums(use, ofBias, use.tensor<float, 2>("ddt_bias"));
}

void delta::launchHeadSums(Use &use, const Tensor<float, 2> &parts, const Tensor<float, 1> &sums) {
  launchSums(use,
             withAxes<3>(parts, {parts.extent(0), 1, parts.extent(1)},
                         {parts.stride(0), 0, parts.stride(1)}),
             withAxes<2>(sums, {1, sums.extent(0)}, {0, sums.stride(0)}));
}
