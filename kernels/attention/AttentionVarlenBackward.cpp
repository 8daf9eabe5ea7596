// attention_varlen_backward: the gradients of attention over packed sequences, by
// attention_backward's formulas within each.
#include "kernels/attention/Backward.h"
#include "kernels/attention/Family.h"
#include "kernels/attention/OptionScores.h"
#include "kernels/attention/References.h"
#include "kernels/attention/Varlen.h"

using namespace sectile;

namespace {

template <class T>
Kernel statistics{"attention_varlen_backward_rows",
                  [](View<const T, 3> o, View<const T, 3> dO, View<const float, 2> lse,
                     View<float, 2> delta, View<float, 2> logs, const AttentionConfig &config) {
                    auto head = program_id(1);
                    blockwise::rowStatistics<T>(program_id(0), config.m, config.valueWidth,
                                                o.fix(1, head), dO.fix(1, head), lse.at(head),
                                                delta.at(head), logs.at(head));
                  }};

template <class T>
Kernel queryGradients{"attention_varlen_backward_q",
                      [](flash::PackedBackwardTensors<T> in, View<T, 3> dq, flash::Numbers numbers,
                         blockwise::OptionArguments<T, 3> given, const AttentionConfig &config) {
                        const blockwise::OptionScores options(config, given);
                        flash::tracePackedQueryGradients<T>(config, in, dq, numbers,
                                                            options.modifier(), options);
                      }};

template <class T>
Kernel keyGradients{
    "attention_varlen_backward_kv",
    [](flash::PackedBackwardTensors<T> in, View<T, 3> dk, View<T, 3> dv, flash::Numbers numbers,
       blockwise::OptionArguments<T, 3> given, const AttentionConfig &config) {
      const blockwise::OptionScores options(config, given);
      flash::tracePackedKeyGradients<T>(config, in, dk, dv, numbers, options.modifier(), options);
    }};

// A program per block of the bias's gradient sums over the heads that share it.
template <class T>
Kernel biasGradients{
    "attention_varlen_backward_bias",
    [](flash::PackedBackwardTensors<T> in, View<T, 3> dbias, flash::Numbers numbers,
       blockwise::OptionArguments<T, 3> given, const AttentionConfig &config) {
      const blockwise::OptionScores options(config, given);
      const auto at =
          blockwise::packedBlock(in.queryStarts, in.q.extent(0), config.m, program_id(0));
      const blockwise::PackedSequence own(at, in.queryStarts, in.keyStarts, in.q.extent(0),
                                          in.k.extent(0));
      options.require(own.of(0));
      auto j = program_id(1);
      auto heads = in.q.extent(1) / dbias.extent(0);
      auto sums = zeros<float>(config.m, config.n);
      for (auto h : range(0, heads)) {
        const Int head = program_id(2) * heads + h, kvHead = head / numbers.group;
        blockwise::addPairGradient<T>(
            sums, at.block, j,
            blockwise::packedHead(in, own, head, options.of<T>(own.of(head), numbers)),
            own.keys.of(in.k.fix(1, kvHead)), own.keys.of(in.v.fix(1, kvHead)));
      }
      own.queries.of(dbias.at(program_id(2))).tile(config.m, config.n).store(at.block, j, sums);
    }};

} // namespace

KernelSpec sectile::attentionVarlenBackwardSpec() {
  KernelSpec spec = attentionGradientsSpec(attentionVarlenSpec());
  spec.summary = "the gradients of attention_varlen";
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    auto result = attentionVarlenBackwardReference(inputs[0], inputs[1], inputs[2], inputs[3],
                                                   inputs[4], inputs[5], inputs[6], inputs[7],
                                                   attentionSettings(call, inputs), arithmetic);
    return std::vector{result.dq, result.dk, result.dv, result.dbias, result.dsinks};
  };
  spec.apply = [](Use &use) {
    using flash::detail::Launch;
    const AttentionNumbers numbers(use.call);
    const OptionFlags flags = optionFlags(use, numbers);
    const auto launchEach = [&](Use &use, const Launch &launch) {
      for_dtype<half, bfloat16, float>(use.call.dtype("q"), [&]<class T>(T) {
        const auto with = [&](const auto &kernel, const Grid &grid, const auto &...results) {
          use(kernel, grid,
              Arguments<flash::PackedBackwardTensors<T>>{
                  use.tensor<T, 3>("q"), use.tensor<T, 3>("k"), use.tensor<T, 3>("v"),
                  use.tensor<std::int32_t, 1>("cu_seqlens_q"),
                  use.tensor<std::int32_t, 1>("cu_seqlens_k"), use.tensor<T, 3>("do"),
                  launch.logs.as<const float, 2>(), launch.delta.as<const float, 2>()},
              results..., launch.numbers, optionArguments<T, 3>(use, numbers),
              AttentionConfig{launch.config, flags});
        };
        if (launch.of == Launch::Of::keys)
          return with(keyGradients<T>, launch.grid, use.tensor<T, 3>("dk"), use.tensor<T, 3>("dv"));
        with(queryGradients<T>, launch.grid, use.tensor<T, 3>("dq"));
        if (!use.has("bias"))
          return;
        const auto dbias = use.tensor<T, 3>("dbias");
        with(biasGradients<T>,
             Grid(launch.grid.x, ceilDiv(use.extent("Mk"), launch.config.n), dbias.extent(0)),
             dbias);
      });
    };
    launchVarlenGradients(use, numbers, modifiesScores(use, numbers), launchEach);
  };
  return spec;
}

void sectile::launchVarlenGradients(Use &use, const AttentionNumbers &numbers, bool modified,
                                    const flash::detail::Launcher &launch) {
  using flash::detail::Launch;
  const Invocation &call = use.call;
  const std::int64_t heads = call.extent("Hq"), queries = call.extent("Tq");
  const AttentionConfig rows = rowConfig(use, numbers);
  flash::LoopConfig forQueries = attentionConfig(use, numbers, "q_"),
                    forKeys = attentionConfig(use, numbers, "kv_");
  forQueries.raw = forKeys.raw = mayBeRaw(numbers, modified);
  const auto lse = use.tensor<float, 2>("lse");
  const auto delta = use.workspace<float, 2>({heads, queries}),
             logs = use.workspace<float, 2>({heads, queries});
  for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
    use(statistics<T>, Grid(ceilDiv(queries, rows.m), heads), use.tensor<T, 3>("o"),
        use.tensor<T, 3>("do"), lse, delta, logs, rows);
  });
  Launch each{.of = Launch::Of::queries,
              .grid = Grid(packedBlocks(call, "Tq", forQueries.m), heads),
              .config = forQueries,
              .numbers = launchNumbers(use, numbers, groupOf(call)),
              .logs = logs,
              .delta = delta};
  launch(use, each);
  each.of = Launch::Of::keys;
  each.grid = Grid(packedBlocks(call, "Tk", forKeys.n), call.extent("Hkv"));
  each.config = forKeys;
  launch(use, each);
  // Sinks know of no sequences.
  const auto single = [](const Tensor<float, 2> &of) {
    return Tensor<float, 3>(of.data(), {1, of.extent(0), of.extent(1)},
                            {of.stride(0) * of.extent(0), of.stride(0), of.stride(1)}, of.memory());
  };
  if (use.has("sinks"))
    launchSinkGradients(use, single(lse), single(delta), rows);
}
