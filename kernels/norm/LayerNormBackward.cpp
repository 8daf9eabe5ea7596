// layer_norm_backward: the gradients of layer_norm.
#include "kernels/norm/Family.h"
#include "kernels/norm/NormBackward.h"
#include "kernels/norm/NormReferences.h"

using namespace sectile;

KernelSpec sectile::layerNormBackwardSpec() {
  KernelSpec spec;
  spec.name = "layer_norm_backward";
  spec.summary = "gradients of y = (x - mean) * rstd * w + b along the last axis";
  spec.arguments = {
      {.name = "x",
       .axes = {"...", "N"},
       .dtypes = {DType::float32, DType::float16, DType::bfloat16},
       .doc = "as in layer_norm"},
      {.name = "w", .axes = {"N"}, .like = "x", .doc = "weight"},
      {.name = "mean",
       .axes = {"..."},
       .dtypes = {DType::float32},
       .doc = "of each row, from layer_norm"},
      {.name = "rstd",
       .axes = {"..."},
       .dtypes = {DType::float32},
       .sample = sampleScales,
       .doc = "from layer_norm"},
      {.name = "dy", .axes = {"...", "N"}, .like = "x", .doc = "gradient of y"},
      {.name = "dx", .output = true, .axes = {"...", "N"}, .like = "x", .doc = "gradient of x"},
      {.name = "dw", .output = true, .axes = {"N"}, .like = "x", .doc = "gradient of w"},
      {.name = "db", .output = true, .axes = {"N"}, .like = "x", .doc = "gradient of b"},
  };
  addNormBackward(spec, true);
  spec.reference = [](const Invocation &, std::span<const HostArray> in, Arithmetic arithmetic) {
    auto result = normBackwardReference(in[0], in[1], &in[2], in[3], in[4], nullptr, arithmetic);
    return std::vector{result.dx, result.dw, result.db};
  };
  return spec;
}
