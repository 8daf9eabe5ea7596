// attention_varlen_backward: the gradients of attention over packed sequences, by
// attention_backward's formulas within each.
#include "kernels/attention/Backward.h"
#include "kernels/attention/Family.h"
#include "kernels/attention/Options.h"
#include "kernels/attention/References.h"
#include "kernels/attention/Varlen.h"
#include <utility>

using namespace sectile;

namespace {

using Starts = View<const std::int32_t, 1>;

template <class T>
Kernel statistics{"attention_varlen_backward_rows",
                  [](View<const T, 3> o, View<const T, 3> dO, View<const float, 2> lse,
                     View<float, 2> delta, View<float, 2> logs, const AttentionConfig &config) {
                    auto head = program_id(1);
                    blockwise::rowStatistics<T>(program_id(0), config.m, config.valueWidth,
                                                o.fix(1, head), dO.fix(1, head), lse.at(head),
                                                delta.at(head), logs.at(head));
                  }};

// What every program of the three kernels is given, and what it makes of that.
template <class T> struct Inputs {
  View<const T, 3> q, k, v;
  Starts queryStarts, keyStarts;
  View<const T, 3> dO;
  View<const float, 2> logs, delta;
  View<const T, 3> bias;
  View<const bool, 3> mask;
  flash::Numbers numbers;
  blockwise::OptionNumbers limits;

  blockwise::PackedPair pair(const AttentionConfig &config,
                             const blockwise::PackedBlock &at) const {
    const blockwise::PackedPair pair(at, queryStarts, keyStarts, q.extent(0), k.extent(0));
    blockwise::requireColumns(config, pair, bias, mask);
    return pair;
  }
  blockwise::QueryHead<T> head(const blockwise::OptionScores &options,
                               const blockwise::PackedPair &pair, const Int &sequence,
                               const Int &head, bool keysFirst) const {
    return {
        pair.queries.of(q.fix(1, head)), pair.queries.of(dO.fix(1, head)),
        pair.queries.of(logs.at(head)), pair.queries.of(delta.at(head)),
        options.of<T>({sequence, head, pair.queries.length, pair.keys.length}, numbers, keysFirst)};
  }
  View<const T, 2> keysOf(const blockwise::PackedPair &pair, const Int &head) const {
    return pair.keys.of(k.fix(1, head / numbers.group));
  }
  View<const T, 2> valuesOf(const blockwise::PackedPair &pair, const Int &head) const {
    return pair.keys.of(v.fix(1, head / numbers.group));
  }
};
template <class T>
SECTILE_STRUCT(Inputs<T>, q, k, v, queryStarts, keyStarts, dO, logs, delta, bias, mask, numbers,
               limits)

template <class T>
Kernel queryGradients{
    "attention_varlen_backward_q", [](Inputs<T> in, View<T, 3> dq, const AttentionConfig &config) {
      auto head = program_id(1);
      const auto at =
          blockwise::packedBlock(in.queryStarts, in.q.extent(0), config.m, blockwise::queryBlock());
      const auto pair = in.pair(config, at);
      const auto options = blockwise::packedScores(config, in.limits, pair, in.bias, in.mask);
      blockwise::queryGradients<T>(at.block, in.head(options, pair, at.sequence, head, false),
                                   in.keysOf(pair, head), in.valuesOf(pair, head),
                                   pair.queries.of(dq.fix(1, head)));
    }};

template <class T>
Kernel keyGradients{
    "attention_varlen_backward_kv",
    [](Inputs<T> in, View<T, 3> dk, View<T, 3> dv, const AttentionConfig &config) {
      auto kvHead = program_id(1);
      const Int group = in.numbers.group;
      const auto at = blockwise::packedBlock(in.keyStarts, in.k.extent(0), config.n, program_id(0));
      const auto pair = in.pair(config, at);
      const auto options = blockwise::packedScores(config, in.limits, pair, in.bias, in.mask);
      blockwise::keyGradients<T>(
          config, at.block, pair.keys.of(in.k.fix(1, kvHead)), pair.keys.of(in.v.fix(1, kvHead)),
          pair.keys.of(dk.fix(1, kvHead)), pair.keys.of(dv.fix(1, kvHead)), group, in.numbers.scale,
          [&](const Int &member) {
            return in.head(options, pair, at.sequence, kvHead * group + member, true);
          });
    }};

// A program per block of the bias's gradient sums over the heads that share it.
template <class T>
Kernel biasGradients{
    "attention_varlen_backward_bias",
    [](Inputs<T> in, View<T, 3> dbias, const AttentionConfig &config) {
      const auto at =
          blockwise::packedBlock(in.queryStarts, in.q.extent(0), config.m, program_id(0));
      const auto pair = in.pair(config, at);
      const auto options = blockwise::packedScores(config, in.limits, pair, in.bias, in.mask);
      auto j = program_id(1);
      auto heads = in.q.extent(1) / dbias.extent(0);
      auto sums = zeros<float>(config.m, config.n);
      for (auto h : range(0, heads)) {
        auto head = program_id(2) * heads + h;
        blockwise::addBiasGradient<T>(sums, at.block, j,
                                      in.head(options, pair, at.sequence, head, false),
                                      in.keysOf(pair, head), in.valuesOf(pair, head));
      }
      pair.queries.of(dbias.at(program_id(2))).tile(config.m, config.n).store(at.block, j, sums);
    }};

} // namespace

KernelSpec sectile::attentionVarlenBackwardSpec() {
  KernelSpec spec = attentionGradientsSpec();
  const KernelSpec forward = attentionVarlenSpec();
  spec.name = "attention_varlen_backward";
  spec.summary = "the gradients of attention_varlen";
  spec.arguments = varlenInputs();
  const std::vector<ArgumentSpec>
      extras = varlenExtras(),
      given{{.name = "o", .axes = {"Tq", "Hq", "Dv"}, .like = "q", .doc = "of the forward pass"},
            {.name = "lse",
             .axes = {"Hq", "Tq"},
             .dtypes = {DType::float32},
             .sample = sampleLogarithms,
             .doc = "of the forward pass"},
            {.name = "do", .axes = {"Tq", "Hq", "Dv"}, .like = "q", .doc = "the gradient of o"}};
  spec.arguments.insert(spec.arguments.end(), given.begin(), given.end());
  spec.arguments.insert(spec.arguments.end(), extras.begin(), extras.end());
  addAttentionGradients(spec);
  spec.options = forward.options;
  spec.typical = forward.typical;
  spec.small = forward.small;
  spec.check = forward.check;
  spec.contents = forward.contents;
  spec.flops = nullptr; // only cu_seqlens knows
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    auto result = attentionVarlenBackwardReference(inputs[0], inputs[1], inputs[2], inputs[3],
                                                   inputs[4], inputs[5], inputs[6], inputs[7],
                                                   attentionSettings(call, inputs), arithmetic);
    return std::vector{result.dq, result.dk, result.dv, result.dbias, result.dsinks};
  };
  for (SearchSpace &space : spec.spaces)
    space.part.insert(space.part.find('_'), "_varlen");
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    const std::int64_t heads = call.extent("Hq"), kvHeads = call.extent("Hkv"),
                       queries = call.extent("Tq"), columns = extentOr0(call, "Mk");
    const AttentionNumbers numbers(call);
    const AttentionConfig rows = rowConfig(use, numbers);
    AttentionConfig forQueries = attentionConfig(use, numbers, "q_"),
                    forKeys = attentionConfig(use, numbers, "kv_");
    forQueries.raw = forKeys.raw = mayBeRaw(numbers, modifiesScores(use, numbers));
    const auto lse = use.tensor<float, 2>("lse");
    const auto delta = use.workspace<float, 2>({heads, queries}),
               logs = use.workspace<float, 2>({heads, queries});
    for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
      const auto dO = use.tensor<T, 3>("do");
      const auto launch = [&](const auto &kernel, Grid grid, const AttentionConfig &config,
                              const auto &...results) {
        use(kernel, grid,
            Arguments<Inputs<T>>{use.tensor<T, 3>("q"), use.tensor<T, 3>("k"),
                                 use.tensor<T, 3>("v"), use.tensor<std::int32_t, 1>("cu_seqlens_q"),
                                 use.tensor<std::int32_t, 1>("cu_seqlens_k"), dO, logs, delta,
                                 broadcast<T, 3>(use, "bias", {heads, queries, columns}),
                                 broadcast<bool, 3>(use, "mask", {heads, queries, columns}),
                                 launchNumbers(numbers, heads / std::max<std::int64_t>(kvHeads, 1)),
                                 optionNumbers(numbers)},
            results..., config);
      };
      use(statistics<T>, Grid(ceilDiv(queries, rows.m), heads), use.tensor<T, 3>("o"), dO, lse,
          delta, logs, rows);
      launch(queryGradients<T>, Grid(packedBlocks(call, "Tq", forQueries.m), heads), forQueries,
             use.tensor<T, 3>("dq"));
      launch(keyGradients<T>, Grid(packedBlocks(call, "Tk", forKeys.n), kvHeads), forKeys,
             use.tensor<T, 3>("dk"), use.tensor<T, 3>("dv"));
      if (use.has("bias")) {
        const auto dbias = use.tensor<T, 3>("dbias");
        launch(biasGradients<T>,
               Grid(packedBlocks(call, "Tq", forQueries.m), ceilDiv(columns, forQueries.n),
                    dbias.extent(0)),
               forQueries, dbias);
      }
    });
    // Sinks know of no sequences.
    const auto single = [](const Tensor<float, 2> &of) {
      return Tensor<float, 3>(of.data(), {1, of.extent(0), of.extent(1)},
                              {of.stride(0) * of.extent(0), of.stride(0), of.stride(1)},
                              of.memory());
    };
    if (use.has("sinks"))
      launchSinkGradients(use, single(lse), single(delta), rows);
  };
  return spec;
}
