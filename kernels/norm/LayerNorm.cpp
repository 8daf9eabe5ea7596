// layer_norm along the last axis, with the statistics a backward pass needs.
#include "kernels/Families.h"
#include "kernels/InputError.h"

using namespace sectile;

KernelSpec sectile::layerNormSpec() {
  KernelSpec spec;
  spec.name = "layer_norm";
  spec.summary = "y = (x - mean) * rstd * w + b along the last axis";
  spec.arguments = {
      {.name = "x",
       .axes = {"...", "N"},
       .dtypes = {DType::float32, DType::float16, DType::bfloat16},
       .doc = "any number of rows, of any length"},
      {.name = "w", .axes = {"N"}, .like = "x", .doc = "weight"},
      {.name = "b", .axes = {"N"}, .like = "x", .doc = "bias"},
      {.name = "y",
       .output = true,
       .axes = {"...", "N"},
       .like = "x",
       .doc = "the normalised rows"},
      {.name = "mean",
       .output = true,
       .axes = {"..."},
       .dtypes = {DType::float32},
       .doc = "of each row"},
      {.name = "rstd",
       .output = true,
       .axes = {"..."},
       .dtypes = {DType::float32},
       .doc = "1/sqrt(variance + eps) of each row, with the biased variance"},
  };
  spec.options = {{.name = "eps",
                   .kind = OptionSpec::number,
                   .initial = "1e-5",
                   .doc = "added to the variance"}};
  spec.config = {{"block", "elements of a row held at once"}, {"warps", "warps of one program"}};
  spec.typical = {{"...", 1024}, {"N", 1024}};
  spec.check = [](const Invocation &call) {
    if (call.options.number("eps") < 0)
      throw InputError("layer_norm: option 'eps' cannot be negative");
  };
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    auto result =
        layerNormReference(inputs[0], inputs[1], inputs[2], call.options.number("eps"), arithmetic);
    return std::vector{result.y, result.mean, result.rstd};
  };
  return spec;
}
