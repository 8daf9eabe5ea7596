// The delta rule and its gradients on the host, step by step, and steps with states in a pool.
#include "kernels/blocks/Activations.h"
#include "kernels/recurrent/DeltaSpec.h"
#include "kernels/recurrent/Family.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <cmath>

using namespace sectile;

namespace {

// A state of one head; its elements lie so far apart along keys and along values.
template <class Number> struct State {
  Number *data;
  std::size_t key, value;

  Number &operator()(std::size_t d, std::size_t e) const { return data[d * key + e * value]; }
};

template <class Numbers> struct DeltaCall {
  using Number = typename Numbers::Number;
  using Array = std::vector<Number>;
  Numbers numbers;
  const Invocation &call;
  std::span<const HostArray> inputs;
  std::size_t batches, length, keyHeads, heads, width, columns;
  Array q = load("q"), k = load("k"), v = load("v"), beta = load("beta"), g = load("g"),
        D = load("D"), z = load("z"), a = load("a"), b = load("b");
  Array gk;                        // by channel
  Array speeds, bias, channelBias; // of the gate: e^A_log and dt_bias by head, dt_bias_k
  DecayGate gate;
  bool corrects, isMamba, isRwkv; // the rules delta, mamba2 and rwkv7
  delta::Limits limits;
  Number bound, scale;

  DeltaCall(Numbers numbers, const Invocation &call, std::span<const HostArray> inputs)
      : numbers(numbers), call(call), inputs(inputs), batches(size(call, "B")),
        length(size(call, "T")), keyHeads(size(call, "Hk")), heads(size(call, "Hv")),
        width(size(call, "K")), columns(size(call, "V")), speeds(load("A_log")),
        bias(load("dt_bias")), gate(delta::gateOf(call)), limits(delta::limitsOf(call)),
        scale(static_cast<Number>(delta::scaleOf(call))) {
    const auto &options = call.options;
    if (options.flag("qk_l2norm"))
      for (Array *rows : {&q, &k})
        normalise(*rows);
    const StateRule rule = delta::ruleOf(call);
    const bool isByChannel = delta::isByChannel(call);
    corrects = rule == StateRule::delta;
    isMamba = rule == StateRule::mamba2;
    isRwkv = rule == StateRule::rwkv7;
    for (Number &speed : speeds)
      speed = std::exp(speed);
    bound = static_cast<Number>(options.number("lower_bound"));
    if (isByChannel) {
      std::swap(g, gk);
      std::swap(bias, channelBias);
      if (gk.empty() && gate != DecayGate::none)
        gk.resize(batches * length * heads * width);
    }
    for (std::size_t i = 0; i < gk.size(); ++i) {
      const std::size_t head = i / width % heads;
      gk[i] = formed(head, gk[i] + (channelBias.empty() ? 0 : channelBias[i % (heads * width)]));
    }
    if (beta.empty())
      beta.assign(batches * length * heads, 1);
    if (g.empty() && !isByChannel && gate != DecayGate::none)
      g.resize(beta.size());
    for (std::size_t i = 0; isMamba && i < beta.size(); ++i)
      beta[i] = lengthOf(raw(i, g[i]));
    for (Number &b : beta) {
      if (options.flag("beta_sigmoid"))
        b = activation::logistic(b);
      if (options.flag("allow_negative"))
        b *= 2;
    }
    for (std::size_t i = 0; i < g.size(); ++i)
      g[i] = formed(i, gate == DecayGate::none ? g[i] : raw(i, g[i]));
    if (isByChannel)
      return;
    gk = load("gk");
    for (std::size_t i = 0; i < gk.size() && !g.empty(); ++i)
      gk[i] += g[i / width];
  }

  // Nothing where the kernel has no such input, or the call leaves it out.
  Array load(std::string_view name) const {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (call.kernel->arguments[i].name == name)
        return numbers.load(inputs[i]);
    return {};
  }
  static std::size_t size(const Invocation &call, const char *axis) {
    return static_cast<std::size_t>(call.extent(axis));
  }
  static Number softplus(Number x) {
    return std::max<Number>(x, 0) + std::log1p(std::exp(-std::abs(x)));
  }
  Number speed(std::size_t i) const { return speeds.empty() ? 1 : speeds[i % heads]; }
  // What the gate adds up, of an element of g.
  Number raw(std::size_t i, Number x) const { return bias.empty() ? x : x + bias[i % heads]; }
  Number lengthOf(Number raw) const {
    return std::clamp(softplus(raw), static_cast<Number>(limits.least),
                      static_cast<Number>(limits.most));
  }
  // The logarithm of a head's decay, of what the gate adds up.
  Number formed(std::size_t head, Number raw) const {
    if (gate == DecayGate::softplus)
      return -speed(head) * lengthOf(raw);
    return gate == DecayGate::sigmoid ? bound * activation::logistic(speed(head) * raw) : raw;
  }

  void normalise(Array &rows) const {
    for (std::size_t first = 0; first < rows.size(); first += width) {
      Number squares = 0;
      for (std::size_t d = 0; d < width; ++d)
        squares += rows[first + d] * rows[first + d];
      const Number factor = 1 / std::sqrt(squares + static_cast<Number>(1e-6));
      for (std::size_t d = 0; d < width; ++d)
        rows[first + d] = numbers.store(rows[first + d] * factor);
    }
  }

  // Of one step, the state becomes the next; `output` is S^T q, not scaled.
  void step(std::size_t t, std::size_t head, const State<Number> &state, Number *output) const {
    const std::size_t row = t * heads + head,
                      key = (t * keyHeads + head / (heads / keyHeads)) * width;
    Array read(isRwkv ? columns : 0); // of the state before the step
    for (std::size_t d = 0; d < width; ++d) {
      const Number decay = !gk.empty()  ? std::exp(gk[row * width + d])
                           : !g.empty() ? std::exp(g[row])
                                        : 1;
      for (std::size_t e = 0; e < columns; ++e) {
        if (isRwkv)
          read[e] += a[key + d] * state(d, e);
        state(d, e) *= decay;
      }
    }
    for (std::size_t e = 0; e < columns; ++e) {
      if (isRwkv) {
        read[e] = numbers.store(read[e]);
        for (std::size_t d = 0; d < width; ++d)
          state(d, e) += numbers.store(b[key + d] * read[e]);
      }
      Number known = 0;
      for (std::size_t d = 0; d < width; ++d)
        known += k[key + d] * state(d, e);
      const Number value = v[row * columns + e],
                   added =
                       numbers.store(beta[row] * (corrects ? value - numbers.store(known) : value));
      Number sum = 0;
      for (std::size_t d = 0; d < width; ++d) {
        state(d, e) += numbers.store(k[key + d] * added);
        sum += q[key + d] * state(d, e);
      }
      output[e] = sum;
    }
  }

  // o before z, of what step gave.
  Number ungated(std::size_t t, std::size_t head, std::size_t e, Number output) const {
    const Number plain = scale * output;
    return D.empty() ? plain
                     : numbers.store(plain) +
                           numbers.store(D[head] * v[(t * heads + head) * columns + e]);
  }
  // Of one step and head, the state becomes the next, and o is written.
  void complete(std::size_t t, std::size_t head, const State<Number> &state, Array &o) const {
    const std::size_t first = (t * heads + head) * columns;
    step(t, head, state, o.data() + first);
    for (std::size_t e = 0; e < columns; ++e) {
      Number &output = o[first + e];
      output = ungated(t, head, e, output);
      if (!z.empty()) {
        const Number gate = z[first + e];
        output = numbers.store(output) * numbers.store(gate * activation::logistic(gate));
      }
    }
  }
};

// Of the packed sequences, or the batches, among the steps of all.
std::vector<std::size_t> startsOf(const Invocation &call, std::span<const HostArray> inputs) {
  std::vector<std::size_t> starts;
  if (call.has("cu_seqlens"))
    for (const std::int32_t start : inputs[call.index("cu_seqlens")].as<std::int32_t>())
      starts.push_back(static_cast<std::size_t>(start));
  else
    for (std::int64_t batch = 0; batch <= call.extent("B"); ++batch)
      starts.push_back(static_cast<std::size_t>(batch * call.extent("T")));
  return starts;
}

} // namespace

std::vector<HostArray> sectile::deltaRuleReference(const Invocation &call,
                                                   std::span<const HostArray> inputs,
                                                   Arithmetic arithmetic) {
  return with_arithmetic(inputs[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const DeltaCall all(numbers, call, inputs);
    const auto starts = startsOf(call, inputs);
    const std::size_t size = all.width * all.columns;
    std::vector<Number> o(all.v.size()), last = all.load("initial_state");
    last.resize((starts.size() - 1) * all.heads * size);
    parallelFor(static_cast<std::int64_t>((starts.size() - 1) * all.heads),
                [&](std::int64_t index) {
                  const auto at = static_cast<std::size_t>(index);
                  const std::size_t sequence = at / all.heads, head = at % all.heads;
                  for (std::size_t t = starts[sequence]; t < starts[sequence + 1]; ++t)
                    all.complete(t, head, {last.data() + at * size, all.columns, 1}, o);
                });
    return outputsOf(call, numbers, o, last);
  });
}

std::vector<HostArray> sectile::deltaStepReference(const Invocation &call,
                                                   std::span<const HostArray> inputs,
                                                   Arithmetic arithmetic) {
  return with_arithmetic(inputs[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const DeltaCall all(numbers, call, inputs);
    const std::size_t size = all.columns * all.width;
    auto states = all.load("state");
    const bool keeps = call.options.flag("keep_states");
    std::vector<Number> o(all.v.size()),
        kept(keeps ? all.batches * all.length * all.heads * size : 0);
    const auto rows =
        call.has("indices") ? inputs[call.index("indices")].to_double() : std::vector<double>();
    parallelFor(static_cast<std::int64_t>(all.batches * all.heads), [&](std::int64_t index) {
      const std::size_t batch = static_cast<std::size_t>(index) / all.heads,
                        head = static_cast<std::size_t>(index) % all.heads;
      const auto row =
          rows.empty() ? static_cast<std::int64_t>(batch) : static_cast<std::int64_t>(rows[batch]);
      if (row < 0)
        return;
      const State<Number> state{
          states.data() + (static_cast<std::size_t>(row) * all.heads + head) * size, 1, all.width};
      for (std::size_t t = batch * all.length; t < (batch + 1) * all.length; ++t) {
        all.complete(t, head, state, o);
        if (keeps)
          std::copy_n(state.data, size, kept.data() + (t * all.heads + head) * size);
      }
    });
    return outputsOf(call, numbers, o, states, kept);
  });
}

std::vector<HostArray> sectile::deltaRuleBackwardReference(const Invocation &call,
                                                           std::span<const HostArray> inputs,
                                                           Arithmetic arithmetic) {
  return with_arithmetic(inputs[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    using Array = std::vector<Number>;
    const DeltaCall all(numbers, call, inputs);
    const auto starts = startsOf(call, inputs);
    Array output = all.load("do");
    const std::size_t width = all.width, columns = all.columns, size = width * columns;
    const Array initial = all.load("initial_state");
    Array slopes = all.load("dfinal_state"); // of the states
    slopes.resize((starts.size() - 1) * all.heads * size);
    const std::size_t group = all.keyHeads ? all.heads / all.keyHeads : 0;
    Array dq(all.q.size()), dk(all.k.size()), dv(all.v.size()), da(all.a.size()), db(all.b.size()),
        dbeta(all.beta.size()), dz(all.z.size());
    const bool isByChannel = delta::isByChannel(call);
    const Array &logs = isByChannel ? all.gk : all.g;
    Array dg(logs.size());
    // Heads that share keys one after another.
    parallelFor(
        static_cast<std::int64_t>((starts.size() - 1) * all.keyHeads), [&](std::int64_t index) {
          const std::size_t sequence = static_cast<std::size_t>(index) / all.keyHeads,
                            shared = static_cast<std::size_t>(index) % all.keyHeads,
                            first = starts[sequence], end = starts[sequence + 1];
          for (std::size_t head = shared * group; head < (shared + 1) * group; ++head) {
            const std::size_t at = sequence * all.heads + head;
            std::vector<Array> states(1, Array(size));
            if (!initial.empty())
              std::copy_n(initial.begin() + static_cast<std::ptrdiff_t>(at * size), size,
                          states[0].begin());
            Array plain(columns);
            for (std::size_t t = first; t < end; ++t) {
              Array next = states.back();
              all.step(t, head, {next.data(), columns, 1}, plain.data());
              states.push_back(std::move(next));
              for (std::size_t e = 0; e < columns && !all.z.empty(); ++e) {
                const std::size_t i = (t * all.heads + head) * columns + e;
                const Number gate = all.z[i], part = activation::logistic(gate),
                             ungated = numbers.store(all.ungated(t, head, e, plain[e]));
                dz[i] = output[i] * ungated * part * (1 + gate * (1 - part));
                output[i] = numbers.store(output[i] * gate * part);
              }
            }
            Number *const slope = slopes.data() + at * size;
            Array decays(width);
            for (std::size_t t = end; t-- > first;) {
              const Array &before = states[t - first], &after = states[t - first + 1];
              const std::size_t row = t * all.heads + head,
                                key = (t * all.keyHeads + shared) * width;
              const auto log = [&](std::size_t d) { return isByChannel ? row * width + d : row; };
              for (std::size_t d = 0; d < width; ++d)
                decays[d] = logs.empty() ? 1 : std::exp(logs[log(d)]);
              for (std::size_t e = 0; e < columns; ++e) {
                const Number out = all.scale * output[row * columns + e];
                Number known = 0, ofAdded = 0, read = 0, ofRead = 0;
                for (std::size_t d = 0; d < width; ++d) {
                  dq[key + d] += after[d * columns + e] * out;
                  slope[d * columns + e] += numbers.store(all.q[key + d] * out);
                  known += all.k[key + d] * decays[d] * before[d * columns + e];
                  ofAdded += all.k[key + d] * slope[d * columns + e];
                  if (all.isRwkv) {
                    read += all.a[key + d] * before[d * columns + e];
                    ofRead += all.b[key + d] * slope[d * columns + e];
                  }
                }
                known = numbers.store(known);
                ofAdded = numbers.store(ofAdded);
                read = numbers.store(read);
                ofRead = numbers.store(ofRead);
                const Number missing = all.v[row * columns + e] - (all.corrects ? known : 0),
                             added = numbers.store(all.beta[row] * missing),
                             ofValue = numbers.store(all.beta[row] * ofAdded),
                             ofKnown = all.corrects ? -ofValue : 0;
                dbeta[row] += ofAdded * missing;
                dv[row * columns + e] =
                    all.D.empty()
                        ? ofValue
                        : ofValue + numbers.store(all.D[head] * output[row * columns + e]);
                for (std::size_t d = 0; d < width; ++d) {
                  Number &own = slope[d * columns + e];
                  const Number state = decays[d] * before[d * columns + e];
                  dk[key + d] += own * added + state * ofKnown;
                  if (all.isRwkv) {
                    da[key + d] += before[d * columns + e] * ofRead;
                    db[key + d] += own * read;
                  }
                  own += numbers.store(all.k[key + d] * ofKnown);
                  if (!dg.empty())
                    dg[log(d)] += own * state;
                  own *= decays[d];
                  if (all.isRwkv)
                    own += numbers.store(all.a[key + d] * ofRead);
                }
              }
            }
          }
        });

    // From the numbers that the steps took back to the inputs.
    if (call.options.flag("qk_l2norm"))
      for (auto [gradient, normal, input] : {std::tuple{&dq, &all.q, 0}, {&dk, &all.k, 1}}) {
        const Array raw = numbers.load(inputs[static_cast<std::size_t>(input)]);
        for (std::size_t row = 0; row < raw.size(); row += width) {
          Number squares = 0, along = 0;
          for (std::size_t d = row; d < row + width; ++d) {
            squares += raw[d] * raw[d];
            along += (*gradient)[d] * (*normal)[d];
          }
          const Number factor = 1 / std::sqrt(squares + static_cast<Number>(1e-6));
          for (std::size_t d = row; d < row + width; ++d)
            (*gradient)[d] = ((*gradient)[d] - (*normal)[d] * along) * factor;
        }
      }
    for (std::size_t i = 0; i < dbeta.size(); ++i) {
      const Number factor = call.options.flag("allow_negative") ? 2 : 1,
                   value = all.beta[i] / factor;
      dbeta[i] *= factor * (call.options.flag("beta_sigmoid") ? value * (1 - value) : 1);
    }
    const std::size_t channels = isByChannel ? width : 1;
    Array ofLogs(all.heads), ofBias(all.heads * channels), ofD(all.heads);
    for (std::size_t i = 0; i < output.size(); ++i)
      ofD[i / columns % all.heads] += output[i] * all.v[i];
    const Array g = all.load("g");
    const Array &bias = isByChannel ? all.channelBias : all.bias;
    for (std::size_t i = 0; i < dg.size() && all.gate != DecayGate::none; ++i) {
      const std::size_t head = i / channels % all.heads, at = i % ofBias.size();
      const Number raw = (g.empty() ? 0 : g[i]) + (bias.empty() ? 0 : bias[at]),
                   speed = all.speed(head);
      if (all.gate == DecayGate::softplus) {
        ofLogs[head] += logs[i] * dg[i];
        const Number free = DeltaCall<decltype(numbers)>::softplus(raw);
        const bool isFree = !(free < static_cast<Number>(all.limits.least)) &&
                            !(free > static_cast<Number>(all.limits.most));
        dg[i] = isFree ? (-speed * dg[i] + (all.isMamba ? dbeta[i] : 0)) * activation::logistic(raw)
                       : 0;
      } else {
        const Number value = activation::logistic(speed * raw);
        dg[i] *= all.bound * value * (1 - value) * speed;
        ofLogs[head] += dg[i] * raw;
      }
      ofBias[at] += dg[i];
    }
    if (all.isRwkv)
      return outputsOf(call, numbers, dq, dk, dv, da, db, dbeta, dg, ofLogs, ofBias, ofD, dz,
                       slopes);
    return outputsOf(call, numbers, dq, dk, dv, dbeta, dg, ofLogs, ofBias, ofD, dz, slopes);
  });
}
