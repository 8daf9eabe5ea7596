// vector_add: z = x + y.
#include "kernels/Families.h"

using namespace sectile;

KernelSpec sectile::vectorAddSpec() {
  KernelSpec spec;
  spec.name = "vector_add";
  spec.summary = "z = x + y, element by element";
  spec.arguments = {
      {.name = "x",
       .axes = {"..."},
       .dtypes = {DType::float32, DType::float16, DType::bfloat16, DType::float64},
       .doc = "any shape"},
      {.name = "y", .axes = {"..."}, .like = "x", .doc = "the same shape"},
      {.name = "z", .output = true, .axes = {"..."}, .like = "x", .doc = "the sum"},
  };
  spec.config = {{"size", "elements of one program"}, {"warps", "warps of one program"}};
  spec.typical = {{"...", 1 << 20}};
  spec.reference = [](const Invocation &, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    return std::vector{vectorAddReference(inputs[0], inputs[1], arithmetic)};
  };
  return spec;
}
