// softmax along the last axis.
#include "kernels/Families.h"

using namespace sectile;

KernelSpec sectile::softmaxSpec() {
  KernelSpec spec;
  spec.name = "softmax";
  spec.summary = "y = softmax(x) along the last axis";
  spec.arguments = {
      {.name = "x",
       .axes = {"...", "N"},
       .dtypes = {DType::float32, DType::float16, DType::bfloat16},
       .doc = "any number of rows, of any length; a row of -inf gives NaN"},
      {.name = "y", .output = true, .axes = {"...", "N"}, .like = "x", .doc = "each row sums to 1"},
  };
  spec.config = {{"block", "elements of a row held at once"}, {"warps", "warps of one program"}};
  spec.typical = {{"...", 1024}, {"N", 1024}};
  spec.reference = [](const Invocation &, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    return std::vector{softmaxReference(inputs[0], arithmetic)};
  };
  return spec;
}
