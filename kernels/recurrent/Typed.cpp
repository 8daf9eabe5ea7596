// The typed functions of <sectile/recurrent.h> as calls of the kernels by name.
#include <sectile/recurrent.h>

using namespace sectile;

NamedTensors detail::runCausalConv(const Stream &stream, bool backward, NamedTensors inputs,
                                   const CausalConvOptions &options, const NamedTensors &to) {
  addTensor(inputs, "b", options.b);
  addTensor(inputs, "initial_state", options.initial_state);
  addTensor(inputs, "cu_seqlens", options.cu_seqlens);
  return run_kernel(stream, backward ? "causal_conv1d_backward" : "causal_conv1d", inputs,
                    {{"activation", options.silu ? "silu" : "none"}}, to);
}

AnyTensor detail::runCausalConvUpdate(const Stream &stream, NamedTensors inputs,
                                      const CausalConvUpdateOptions &options,
                                      const std::optional<AnyTensor> &to) {
  addTensor(inputs, "b", options.b);
  addTensor(inputs, "indices", options.indices);
  addTensor(inputs, "cu_seqlens", options.cu_seqlens);
  NamedTensors given{{"state_out", inputs.at("state")}};
  addTensor(given, "y", to);
  return run_kernel(stream, "causal_conv1d_update", inputs,
                    {{"activation", options.silu ? "silu" : "none"}}, given)
      .at("y");
}
