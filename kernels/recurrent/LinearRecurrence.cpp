// linear_recurrence: a state that decays and takes in the outer product of a key and a value at
// each step, read by a query:
//   h <- d * h + k v^T, then o = (scale q)^T h, with d = e^(g + gk) for each row of h,
// which is gated linear attention (Yang et al., arXiv 2312.06635). Step by step, or by chunks of
// steps through matrix products; by chunks a NaN or an infinity in k or v may also reach the
// earlier steps of its chunk. Dk beyond 256 is refused.
#include "kernels/recurrent/LinearRecurrence.h"
#include "kernels/recurrent/Family.h"
#include "kernels/references/Sample.h"

using namespace sectile;
using namespace sectile::recurrence;

namespace {

// One program goes through all steps, with its columns of the state in registers.
template <class T>
Kernel steps{"linear_recurrence_steps",
             [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<const float, 3> g,
                View<const float, 4> gk, View<const float, 4> initial, View<T, 4> o,
                View<float, 4> last, Float scale, const ChunkConfig &config) {
               const int width = config.width, dv = config.dv;
               auto column = program_id(0), head = program_id(1), batch = program_id(2);
               auto queries = q.at(batch, head).tile(1, width),
                    keys = k.at(batch, head).tile(1, width);
               auto values = v.at(batch, head).tile(1, dv);
               auto state = zeros<float>(width, dv);
               if (config.initial_state)
                 state = initial.at(batch, head).tile(width, dv).load(0, column);
               for (auto t : range(0, q.extent(2))) {
                 auto decay = decayOf(g.at(batch, head), gk.at(batch, head), t, config);
                 state = state * expand(decay.whole, 1) +
                         trans(cast<float>(keys.load(t, 0))) * cast<float>(values.load(t, column));
                 auto output = sum(state * trans(cast<float>(queries.load(t, 0)) * scale), 0);
                 o.at(batch, head).tile(1, dv).store(t, column, expand(output, 0));
               }
               last.at(batch, head).tile(width, dv).store(0, column, state);
             }};

// The outputs of one chunk: of the state before it, and of its own steps among themselves.
template <class T, class U>
Kernel outputs{
    "linear_recurrence_outputs",
    [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<const float, 3> g,
       View<const float, 4> gk, View<const U, 5> states, View<const float, 4> units, View<T, 4> o,
       Float scale, const ChunkConfig &config) {
      const int chunk = config.chunk, width = config.width, dv = config.dv;
      auto columns = cdiv(v.extent(3), dv);
      auto number = program_id(0) / columns, column = program_id(0) % columns;
      auto head = program_id(1), batch = program_id(2);
      auto query = q.at(batch, head).tile(chunk, width).load(number, 0);
      auto ownG = g.at(batch, head);
      auto ownGk = gk.at(batch, head);
      auto keys = k.at(batch, head);
      auto scores = zeros<float>(chunk, chunk);
      if (config.gk) {
        auto place = expand(arange(0, chunk), 0);
        auto wide = cast<float>(query);
        forEachStep(keys, ownG, ownGk, number, config, [&](auto j, auto key, auto decay) {
          scores = where(place == j, expand(sum(wide * key * decay, 1), 1), scores);
        });
      } else {
        scores =
            dot(query, trans(keys.tile(chunk, width).load(number, 0)), scores, Precision::ieee) *
            pairwise(ownG, number, config);
      }
      auto decay = decayOf(ownG, ownGk, number, config);
      auto early = cast<float>(query) * decay.fromStart * scale;
      const KeptState<U> kept{states.at(batch, head, number), units.at(batch, head, number)};
      auto state = kept.load(column, width, dv);
      auto result = zeros<float>(chunk, dv);
      if constexpr (std::same_as<U, float>)
        result = dot(early, state, result, statePrecision<T>);
      else
        result = dot(cast<U>(early), state, result, Precision::ieee) * kept.unit(column);
      result = dot(cast<T>(scores * scale), v.at(batch, head).tile(chunk, dv).load(number, column),
                   result, Precision::ieee);
      o.at(batch, head).tile(chunk, dv).store(number, column, result);
    }};

void sampleLogs(const Invocation &, HostArray &logs, std::mt19937_64 &random) {
  std::normal_distribution<double> normal;
  fillDrawn(logs, [&] { return -0.5 * std::abs(normal(random)); });
}

} // namespace

KernelSpec recurrence::commonSpec(const char *name, const char *summary) {
  KernelSpec spec;
  spec.name = name;
  spec.summary = summary;
  spec.add_arguments({{"q: [B, H, T, Dk] f16|bf16|f32", "queries; Dk is at most 256"},
                      {"k: [B, H, T, Dk] like q", "keys"},
                      {"v: [B, H, T, Dv] like q", "values"},
                      {"g?: [B, H, T] f32",
                       "logarithm of each step's decay; -inf forgets all",
                       {.sample = sampleLogs}},
                      {"gk?: [B, H, T, Dk] f32",
                       "the same for each channel of the keys; added to g",
                       {.sample = sampleLogs}},
                      {"initial_state?: [B, H, Dk, Dv] f32",
                       "the state before the first step; zeros if left out"}});
  spec.add_options({{"scale: number e.g. 0.7", "of the queries; 1/sqrt(Dk) if not given"},
                    {"reverse: flag = false", "from the last step to the first"}});
  spec.typical = {{"B", 4}, {"H", 16}, {"T", 4096}, {"Dk", 128}, {"Dv", 128}};
  spec.small = {{"B", 2}, {"H", 2}, {"T", 40}, {"Dk", 24}, {"Dv", 20}};
  spec.check = [](const Invocation &call) {
    if (call.extent("Dk") > 256)
      refuse(call, "Dk is ", call.extent("Dk"), ", but must be at most 256");
  };
  return spec;
}

KernelSpec sectile::linearRecurrenceSpec() {
  KernelSpec spec =
      commonSpec("linear_recurrence", "h = decay h + k v^T at each step, o = (scale q)^T h");
  spec.add_arguments({{"-> o: [B, H, T, Dv] like q", "of the state after the step"}});
  spec.add_arguments({{"-> final_state: [B, H, Dk, Dv] f32", "the state after the last step"}});
  spec.config = {{"chunk", "steps of one chunk; 1 goes step by step"},
                 {"dv", "columns of v of one program"},
                 {"warps", "warps of one program"}};
  spec.reference = linearRecurrenceReference;
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const std::int64_t width = widthOf(call);
    std::int64_t chunk =
        call.has("gk") || width > 128 || !hasMatrixUnits(target, call.tensors[0].dtype) ? 16
        : call.tensors[0].dtype == DType::float32                                       ? 32
                                                                                        : 64;
    if (call.extent("T") < 16)
      chunk = 1;
    return Config{{"chunk", chunk}, {"dv", width > 128 ? 16 : 32}, {"warps", 4}};
  };
  spec.spaces = {
      {.part = "linear_recurrence_outputs",
       .axes = {{"chunk", {16, 32, 64, 128}}, {"dv", {16, 32, 64}}, {"warps", {2, 4, 8}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t threads = config.at("warps") * warpSize(target),
                            chunk = config.at("chunk"), dv = config.at("dv");
         const std::int64_t numbers =
             (widthOf(call) * dv + chunk * (chunk + dv + widthOf(call))) / threads;
         return numbers <= 160 && (!call.has("gk") || chunk <= 32);
       }}};
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    const ChunkConfig chosen = chunkConfig(use);
    const std::int64_t b = call.extent("B"), h = call.extent("H"),
                       columns = ceilDiv(call.extent("Dv"), chosen.dv);
    const auto g = timed<float, 3>(use, "g");
    const auto gk = timed<float, 4>(use, "gk");
    const auto initial = use.tensor<float, 4>("initial_state"),
               last = use.tensor<float, 4>("final_state");
    for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
      const auto q = timed<T, 4>(use, "q"), k = timed<T, 4>(use, "k"), v = timed<T, 4>(use, "v"),
                 o = timed<T, 4>(use, "o");
      if (chosen.chunk == 1) {
        use(steps<T>, Grid(columns, h, b), q, k, v, g, gk, initial, o, last, scaleOf(call), chosen);
        return;
      }
      const std::int64_t chunks = ceilDiv(call.extent("T"), chosen.chunk);
      using U = std::conditional_t<std::same_as<T, half>, half, float>;
      const auto states = use.workspace<U, 5>({b, h, chunks, call.extent("Dk"), call.extent("Dv")});
      const auto units = use.workspace<float, 4>({b, h, chunks, columns});
      use(statesKernel<T, U>, Grid(columns, h, b), k, v, g, gk, initial, states, units, last,
          chosen);
      use(outputs<T, U>, Grid(chunks * columns, h, b), q, k, v, g, gk, states, units, o,
          scaleOf(call), chosen);
    });
  };
  return spec;
}
