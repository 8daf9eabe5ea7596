// The kernels of attention and its gradients with what says which keys a query sees: the options
// alone, or more. Of has the kernels' name, what they take besides, their configuration and what
// this becomes for the loops.
#pragma once
#include "kernels/attention/Backward.h"
#include "kernels/attention/OptionScores.h"

namespace sectile {

struct PlainOptions {
  static constexpr const char *forward = "attention", *ofQueries = "attention_backward_q",
                              *ofKeys = "attention_backward_kv",
                              *ofBias = "attention_backward_bias";
  template <class T> using Arguments = blockwise::OptionArguments<T>;
  using Config = AttentionConfig;
  using Scores = blockwise::OptionScores;
};

template <class Of, class T, class Out = T>
Kernel attentionKernel{
    Of::forward, [](flash::ForwardTensors<T, Out> tensors, flash::Numbers numbers,
                    typename Of::template Arguments<T> given, const typename Of::Config &config) {
      const typename Of::Scores options(config, given);
      flash::traceForward(config, tensors, options.rules(numbers));
    }};

template <class Of, class T, class Sum>
Kernel queryGradients{
    Of::ofQueries, [](flash::BackwardTensors<T> in, View<Sum, 4> dq, flash::Numbers numbers,
                      typename Of::template Arguments<T> given, const typename Of::Config &config) {
      const typename Of::Scores options(config, given);
      flash::traceQueryGradients(config, in, dq, options.rules(numbers));
    }};

template <class Of, class T, class Sum>
Kernel keyGradients{Of::ofKeys, [](flash::BackwardTensors<T> in, View<Sum, 4> dk, View<Sum, 4> dv,
                                   View<float, 4> dqSums, flash::Numbers numbers,
                                   typename Of::template Arguments<T> given,
                                   const typename Of::Config &config) {
                      const typename Of::Scores options(config, given);
                      flash::traceKeyGradients(config, in, dk, dv, dqSums, options.rules(numbers));
                    }};

template <class Of, class T>
Kernel biasGradients{
    Of::ofBias, [](flash::BackwardTensors<T> in, View<T, 4> dbias, flash::Numbers numbers,
                   typename Of::template Arguments<T> given, const typename Of::Config &config) {
      const typename Of::Scores options(config, given);
      blockwise::pairGradients(config, in, dbias, options.rules(numbers), {}, config.adds);
    }};

// All launches of attention_backward with these kernels. given(T(), ofKeys) is what they take,
// those of keys or the others; configOf(loops) their configuration.
template <class Of, class Given, class ConfigOf>
void launchGradientKernels(Use &use, const AttentionNumbers &numbers,
                           const GradientTensors &tensors, Given &&given, ConfigOf &&configOf) {
  using flash::detail::Launch;
  const auto launchEach = [&](Use &use, const Launch &launch) {
    for_dtype<half, bfloat16, float>(operandType(use.call), [&]<class T>(T) {
      const auto with = [&](const auto &kernel, const Grid &grid, bool ofKeys,
                            const Arguments<flash::Numbers> &launched,
                            const AttentionConfig &config, const auto &...results) {
        use(kernel, grid,
            Arguments<flash::BackwardTensors<T>>{tensors.q.as<T, 4>(), tensors.k.as<T, 4>(),
                                                 use.tensor<T, 4>("v"), use.tensor<T, 4>("do"),
                                                 launch.logs.as<const float, 3>(),
                                                 launch.delta.as<const float, 3>()},
            results..., launched, given(T(), ofKeys), configOf(config));
      };
      const AttentionConfig chosen{launch.config, optionFlags(use, numbers)};
      const auto keys = [&]<class Sum>(Sum) {
        with(keyGradients<Of, T, Sum>, launch.grid, true, launch.numbers, chosen,
             launch.dk.as<Sum, 4>(), launch.dv.as<Sum, 4>(), launch.dqSums.as<float, 4>());
        if (!use.has("bias"))
          return;
        AttentionConfig config = attentionConfig(use, numbers, "q_");
        config.adds = tensors.addsBias;
        const auto dbias = use.tensor<T, 4>("dbias");
        const std::int64_t blocks =
            ceilDiv(use.extent("Sq"), config.m) * ceilDiv(use.extent("Sk"), config.n);
        with(biasGradients<Of, T>, Grid(blocks, dbias.extent(1), dbias.extent(0)), false,
             launchNumbers(use, numbers, groupOf(use.call)), config, dbias);
      };
      const auto queries = [&]<class Sum>(Sum) {
        with(queryGradients<Of, T, Sum>, launch.grid, false, launch.numbers, chosen,
             tensors.dq.as<Sum, 4>());
      };
      const bool ofQueries = launch.of == Launch::Of::queries;
      if ((ofQueries ? tensors.dq : launch.dk).dtype == dtype_of<T>)
        ofQueries ? queries(T()) : keys(T());
      else
        ofQueries ? queries(float()) : keys(float());
    });
  };
  launchGradients(use, numbers, modifiesScores(use, numbers), {}, tensors, launchEach);
}

} // namespace sectile
