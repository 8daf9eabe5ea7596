// delta_rule: a state that forgets what a key stood for before it takes in the key's new value,
//   S <- e^g S, u = beta (v - S^T k), S <- S + k u^T, o = scale S^T q,
// the gated delta rule (Yang et al., arXiv 2412.06464), by chunks of steps on matrix units. With A
// the products of a chunk's keys below the diagonal, times beta and the decay between them, and
// (I + A)^-1 = X: u = X (beta v) - X (beta e^G k) S. The two products with X need no state, so that
// all chunks have them at once; the states then go from chunk to chunk, and outputs follow, again
// all at once. Without the correction (u = beta v: Mamba-2, Dao and Gu, arXiv 2405.21060, and gated
// linear attention) the same states and outputs are of k and v directly. K beyond 256 is refused. A
// NaN or an infinity of a step may reach the earlier steps of its chunk.
#include "kernels/recurrent/DeltaRule.h"
#include "kernels/recurrent/Family.h"
#include "kernels/registry/Contents.h"
#include "runtime/Chip.h"

using namespace sectile;
using namespace sectile::delta;

namespace {

// The three launches --------------------------------------------------------------------------

// Of each chunk: what its steps add without a state (`values` [B, T, Hv, V]), what they take of the
// state before the chunk (`reads`), and how much of each step and of that state remains behind it.
template <class T>
Kernel chunks{
    "delta_rule_chunks",
    [](View<const T, 4> k, View<const T, 4> v, View<const float, 3> beta, View<const float, 3> g,
       View<const std::int32_t, 1> starts, View<T, 4> reads, View<T, 4> values,
       View<float, 4> inverses, View<float, 3> remaining, View<float, 2> whole,
       const DeltaConfig &config) {
      const int chunk = config.chunk, width = config.width, columns = config.columns;
      auto slot = program_id(0), head = program_id(1);
      withChunk(
          starts, slot, k.extent(1), config, [&](const Sequence &sequence, const Int &number) {
            auto keys = sequence.rows(k, head / (v.extent(2) / k.extent(2)));
            auto logs = sequence.numbers(g, head);
            auto key = keys.tile(chunk, width).load(number, 0);
            auto strength = strengthsOf(sequence.numbers(beta, head), number, config);
            auto factor = factors(key, config);
            const Decays decays(logs, number, config);
            auto i = expand(arange(0, chunk), 1), j = expand(arange(0, chunk), 0);
            auto products = dot(key, trans(key), zeros<float>(chunk, chunk), Precision::ieee) *
                            decays.between();
            auto lower =
                where(i > j, products * expand(strength * factor, 1) * expand(factor, 0), 0.0f);
            auto inverse = Inverse<T>(lower, chunk)();
            if (config.backward)
              inverses.at(slot, head).tile(chunk, chunk).store(0, 0, inverse);
            remaining.at(slot, head).tile(chunk).store(0, decays.toEnd * factor);
            whole.at(slot).tile(1).store(head, full<float>(decays.whole, 1));

            auto weighted = inverse * expand(strength * factor * decays.fromStart, 0);
            auto read = reads.at(slot, head);
            const auto zero = zeros<float>(chunk, columns);
            if (width <= 128)
              read.tile(chunk, width)
                  .store(0, 0, withRows(weighted, key, zeros<float>(chunk, width)));
            else
              for (auto column : range(0, cdiv(k.extent(3), columns)))
                read.tile(chunk, columns)
                    .store(
                        0, column,
                        withRows(weighted, keys.tile(chunk, columns).load(number, column), zero));
            weighted = inverse * expand(strength, 0);
            auto from = sequence.rows(v, head).tile(chunk, columns);
            auto to = sequence.rows(values, head).tile(chunk, columns);
            for (auto column : range(0, cdiv(v.extent(3), columns)))
              to.store(number, column, withRows(weighted, from.load(number, column), zero));
          });
    }};

// From chunk to chunk, with some columns of a state: leaves the state before each chunk, and what
// the chunk's steps add (`added`). Without corrections `values` are those of the steps.
template <class T>
Kernel states{
    "delta_rule_states",
    [](View<const T, 4> k, View<const float, 3> beta, View<const float, 3> g,
       View<const std::int32_t, 1> starts, View<const T, 4> reads, View<const T, 4> values,
       View<T, 4> added, View<const float, 3> remaining, View<const float, 2> whole,
       View<const float, 4> initial, View<Ranged<T>, 4> kept, View<float, 4> last,
       const DeltaConfig &config) {
      const int chunk = config.chunk, width = config.width, columns = config.columns;
      auto column = program_id(0), head = program_id(1), one = program_id(2);
      const auto sequence = sequenceOf(starts, one, k.extent(1), config);
      auto keys = sequence.rows(k, head / (values.extent(2) / k.extent(2))).tile(chunk, width);
      auto news = sequence.rows(values, head).tile(chunk, columns);
      auto state = zeros<float>(width, columns);
      if (config.initial_state)
        state = initial.at(one, head).tile(width, columns).load(0, column);
      // Two chunks in flight leave room for two programs of a multiprocessor.
      for (auto number : range(0, cdiv(sequence.tokens.length, chunk), {.stages = 2})) {
        auto slot = sequence.slot + number;
        auto key = keys.load(number, 0);
        auto fresh = cast<float>(news.load(number, column));
        kept.at(slot, head).tile(width, columns).store(0, column, cast<Ranged<T>>(state));
        auto late = full<float>(1, chunk);
        Float rest = 1.0f;
        if (config.corrects) {
          auto read = reads.at(slot, head).tile(chunk, width).load(0, 0);
          late = remaining.at(slot, head).tile(chunk).load(0);
          rest = load(whole.ptr() + cast<std::int64_t>(slot) * whole.stride(0) +
                      cast<std::int64_t>(head) * whole.stride(1));
          fresh -= withState(read, state, zeros<float>(chunk, columns));
          added.at(slot, head).tile(chunk, columns).store(0, column, fresh);
        } else {
          const Decays decays(sequence.numbers(g, head), number, config);
          late = decays.toEnd * factors(key, config) *
                 strengthsOf(sequence.numbers(beta, head), number, config);
          rest = decays.whole;
        }
        state = dot(trans(key), cast<T>(fresh * expand(late, 1)), state * rest, Precision::ieee);
      }
      last.at(one, head).tile(width, columns).store(0, column, state);
    }};

template <class T>
Kernel outputs{
    "delta_rule_outputs",
    [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<const float, 3> beta,
       View<const float, 3> g, View<const std::int32_t, 1> starts, View<const T, 4> added,
       View<const Ranged<T>, 4> kept, View<const float, 1> D, View<const T, 4> z, View<T, 4> o,
       Float scale, const DeltaConfig &config) {
      const int chunk = config.chunk, width = config.width, columns = config.columns;
      auto blocks = cdiv(o.extent(3), columns);
      auto slot = program_id(0) / blocks, column = program_id(0) % blocks, head = program_id(1);
      withChunk(
          starts, slot, q.extent(1), config, [&](const Sequence &sequence, const Int &number) {
            auto shared = head / (o.extent(2) / q.extent(2));
            auto logs = sequence.numbers(g, head);
            auto query = sequence.rows(q, shared).tile(chunk, width).load(number, 0),
                 key = sequence.rows(k, shared).tile(chunk, width).load(number, 0);
            const Decays decays(logs, number, config);
            auto scores = scoresOf(query, key, decays, scale, config);
            auto state = kept.at(slot, head).tile(width, columns).load(0, column);
            auto result = rangedDot<T>(query, state, zeros<float>(chunk, columns));
            result *= expand(decays.fromStart * factors(query, config) * scale, 1);
            auto values = sequence.rows(v, head).tile(chunk, columns);
            if (config.corrects) {
              result =
                  dot(cast<T>(scores), added.at(slot, head).tile(chunk, columns).load(0, column),
                      result, Precision::ieee);
            } else {
              scores *= expand(strengthsOf(sequence.numbers(beta, head), number, config), 0);
              result = dot(cast<T>(scores), values.load(number, column), result, Precision::ieee);
            }
            storeOutput(sequence, number, head, column, result, v, D, z, o, config);
          });
    }};

} // namespace

// The call ------------------------------------------------------------------------------------

static DeltaConfig configOf(const Use &use, const char *columns, const char *warps, bool backward) {
  const StateRule rule = ruleOf(use.call);
  const bool byChannel = isByChannel(use.call), hasDecays = decaysOf(use.call).isGiven(use.call);
  return {.chunk = use.field("chunk"),
          .columns = use.field(columns),
          .warps = use.field(warps),
          .width = static_cast<int>(widthOf(use.call)),
          .corrects = rule == StateRule::delta || rule == StateRule::rwkv7,
          .direct = byChannel && rule != StateRule::delta,
          .beta = strengthsOf(use.call).isGiven(use.call),
          .g = hasDecays && !byChannel,
          .gk = hasDecays && byChannel,
          .D = use.has("D"),
          .z = use.has("z"),
          .initial_state = use.has("initial_state"),
          .packed = use.has("cu_seqlens"),
          .l2norm = use.call.options.flag("qk_l2norm"),
          .backward = backward,
          .dfinal_state = backward && use.has("dfinal_state")};
}

DeltaCall::DeltaCall(Use &use, bool backward)
    : heads(use.call.extent("Hv")), k(use.call.extent("K")), v(use.call.extent("V")),
      count(use.call.extent("N")), scale(static_cast<float>(scaleOf(use.call))),
      states(configOf(use, "dv", "warps", backward)),
      wide(configOf(use, "columns", "chunk_warps", backward)),
      slots(states.packed ? use.call.extent("T") / states.chunk + count
                          : count * ceilDiv(use.call.extent("T"), states.chunk)),
      starts(use.tensor<std::int32_t, 1>("cu_seqlens")), beta(inFloat(use, strengthsOf(use.call))),
      g(isByChannel(use.call) ? noTensor<float, 3>() : inFloat(use, decaysOf(use.call))),
      remaining(noTensor<float, 3>()),
      gk(isByChannel(use.call) ? channelsInFloat(use, decaysOf(use.call)) : noTensor<float, 4>()),
      whole(noTensor<float, 2>()) {
  if (!states.corrects || isByChannel(use.call))
    return;
  remaining = use.workspace<float, 3>({slots, heads, states.chunk});
  whole = use.workspace<float, 2>({slots, heads});
}

template <class T>
Tensor<T, 4> delta::launchStates(Use &use, const DeltaCall &call, const Tensor<T, 4> &values,
                                 const Tensor<T, 4> &added, const Tensor<float, 4> &inverses,
                                 const Tensor<Ranged<T>, 4> &kept, const Tensor<float, 4> &last) {
  const auto keys = use.tensor<T, 4>("k"), v = use.tensor<T, 4>("v");
  const bool corrects = call.states.corrects;
  auto reads = noTensor<T, 4>();
  if (corrects) {
    reads = use.workspace<T, 4>({call.slots, call.heads, call.states.chunk, call.k});
    use(chunks<T>, Grid(call.slots, call.heads), keys, v, call.beta, call.g, call.starts, reads,
        values, inverses, call.remaining, call.whole, call.wide);
  }
  use(::states<T>, Grid(ceilDiv(call.v, call.states.columns), call.heads, call.count), keys,
      call.beta, call.g, call.starts, reads, corrects ? values : v, added, call.remaining,
      call.whole, use.tensor<float, 4>("initial_state"), kept, last, call.states);
  return reads;
}

template <class T>
void delta::launchOutputs(Use &use, const DeltaCall &call, const Tensor<T, 4> &added,
                          const Tensor<Ranged<T>, 4> &kept, const Tensor<T, 4> &o, bool gated) {
  DeltaConfig config = call.wide;
  config.z = config.z && gated;
  use(outputs<T>, Grid(call.slots * ceilDiv(call.v, config.columns), call.heads),
      use.tensor<T, 4>("q"), use.tensor<T, 4>("k"), use.tensor<T, 4>("v"), call.beta, call.g,
      call.starts, added, kept, use.tensor<float, 1>("D"), use.tensor<T, 4>("z"), o, call.scale,
      config);
}

#define INSTANTIATE(T)                                                                             \
  template Tensor<T, 4> delta::launchStates(                                                       \
      Use &, const DeltaCall &, const Tensor<T, 4> &, const Tensor<T, 4> &,                        \
      const Tensor<float, 4> &, const Tensor<Ranged<T>, 4> &, const Tensor<float, 4> &);           \
  template void delta::launchOutputs(Use &, const DeltaCall &, const Tensor<T, 4> &,               \
                                     const Tensor<Ranged<T>, 4> &, const Tensor<T, 4> &, bool);
INSTANTIATE(half)
INSTANTIATE(bfloat16)
INSTANTIATE(float)
#undef INSTANTIATE

namespace {

void apply(Use &use) {
  const DeltaCall call(use);
  for_dtype<half, bfloat16, float>(use.call.dtype("q"), [&]<class T>(T) {
    const auto kept = use.workspace<Ranged<T>, 4>({call.slots, call.heads, call.k, call.v});
    auto added = noTensor<T, 4>();
    if (call.states.corrects)
      added = use.workspace<T, 4>({call.slots, call.heads, call.states.chunk, call.v});
    const auto o = use.tensor<T, 4>("o");
    launchStates(use, call, o, added, noTensor<float, 4>(), kept,
                 use.tensor<float, 4>("final_state"));
    launchOutputs(use, call, added, kept, o, true);
  });
}

Config defaults(const Invocation &call, const std::string &target) {
  const DType dtype = call.dtype("q");
  const bool isHalf = dtype != DType::float32 && hasMatrixUnits(target, dtype);
  const std::int64_t width = widthOf(call);
  // Two chunks of keys and values each are in flight.
  const Chip *chip = Chip::find(target);
  const bool isLarge =
      chip && chip->asyncCopy && 8 * 64 * width > std::int64_t(chip->maxSharedBytes);
  const std::int64_t chunk = !isHalf || call.extent("T") <= 16   ? 16
                             : call.extent("T") <= 32 || isLarge ? 32
                                                                 : 64;
  // In f16, where states enter products more exactly, 128 columns take more registers than there
  // are.
  std::int64_t dv = width > 128 && chunk < 64 ? 16 : 32;
  if (chunk == 64 && width <= 128)
    dv = stateColumns(call, dtype == DType::bfloat16 ? 128 : 64, target);
  return {{"chunk", chunk},
          {"dv", dv},
          {"warps", chunk < 64 ? 4 : 8},
          {"columns", chunk < 64 ? 32 : 64},
          {"chunk_warps", chunk < 64 ? 2 : 4}};
}

} // namespace

std::int64_t delta::stateColumns(const Invocation &call, std::int64_t most,
                                 const std::string &target) {
  const std::int64_t states = call.extent("N") * call.extent("Hv"), values = call.extent("V"),
                     least = multiprocessors(target) * 9 / 10;
  std::int64_t columns = most;
  while (columns > 16 && (columns >= 2 * values || states * ceilDiv(values, columns) < least))
    columns /= 2;
  return columns;
}

static void checkSequences(const Invocation &call) {
  checkSteps(call);
  checkPacked(call, "N1");
  if (call.extent("N") != sequences(call))
    refuse(call, "there are ", call.extent("N"), " states, but ", sequences(call), " sequences");
  for (const char *option : {"beta_sigmoid", "allow_negative"})
    if (call.options.flag(option) && !call.has("beta"))
      refuse(call, "there is no beta, which option '", option, "' changes");
}

void delta::completeSpec(KernelSpec &spec, const char *statesPart, const char *chunksPart) {
  spec.config = {{"chunk", "steps of one chunk: 16, 32 or 64"},
                 {"dv", "columns of the state of one program"},
                 {"warps", "warps of that"},
                 {"columns", "columns of o of one program"},
                 {"chunk_warps", "warps of that, and of the products of a chunk"}};
  const auto fits = [](const Config &config, std::int64_t numbers, std::int64_t warps,
                       const std::string &target) {
    const std::int64_t chunk = config.at("chunk");
    return (chunk == 16 || chunk == 32 || chunk == 64) && numbers <= 160 * warps * warpSize(target);
  };
  spec.spaces = {
      {.part = statesPart,
       .axes = {{"dv", {16, 32, 64, 128}}, {"warps", {2, 4, 8}}},
       .where =
           [=](const Invocation &call, const std::string &target, const Config &config) {
             const std::int64_t chunk = config.at("chunk"), dv = config.at("dv");
             return fits(config, widthOf(call) * dv + chunk * (2 * dv + widthOf(call)),
                         config.at("warps"), target);
           }},
      {.part = chunksPart,
       .axes = {{"columns", {16, 32, 64, 128}}, {"chunk_warps", {2, 4, 8}}},
       .where = [=](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t chunk = config.at("chunk"), columns = config.at("columns");
         return fits(config, chunk * (2 * chunk + columns + widthOf(call)),
                     config.at("chunk_warps"), target);
       }}};
  spec.typical = {{"B", 4}, {"T", 4096}, {"Hk", 16}, {"Hv", 32}, {"K", 128}, {"V", 128}, {"N1", 9}};
  spec.small = {{"B", 1}, {"T", 40}, {"Hk", 2}, {"Hv", 4}, {"K", 24}, {"V", 20}, {"N1", 4}};
  spec.follow = [](Invocation &call) { call.extents["N"] = sequences(call); };
  spec.derive = [](Invocation &call) {
    call.extents.try_emplace("N", std::max<std::int64_t>(sequences(call), 0));
  };
  spec.check = checkSequences;
  spec.contents = [](const Invocation &call, std::span<const HostArray> arrays) {
    checkBoundaries(call, arrays, "cu_seqlens", call.extent("T"));
  };
}

KernelSpec sectile::deltaRuleSpec() {
  KernelSpec spec;
  spec.name = "delta_rule";
  spec.summary = "the gated delta rule, Mamba-2 or gated linear attention, by chunks: "
                 "S = e^g S, u = beta (v - S^T k), S = S + k u^T at each step, o = scale S^T q";
  spec.add_arguments(inputs(DeltaForm{}));
  spec.add_arguments({{"-> o: [B, T, Hv, V] like q", "of the state after the step"},
                      {"-> final_state: [N, Hv, K, V] f32",
                       "the state after each sequence",
                       {.stored = storedStates}}});
  spec.add_options(delta::options(DeltaForm{}));
  completeSpec(spec, "delta_rule_states", "delta_rule_outputs");
  spec.reference = deltaRuleReference;
  spec.factor = 3; // by chunks more numbers are rounded than step by step
  spec.defaults = defaults;
  spec.apply = apply;
  return spec;
}
