// matmul: c = a b, either operand stored transposed.
#include "kernels/Families.h"
#include "kernels/InputError.h"

using namespace sectile;

KernelSpec sectile::matmulSpec() {
  KernelSpec spec;
  spec.name = "matmul";
  spec.summary = "c = a b";
  spec.arguments = {
      {.name = "a",
       .axes = {"M", "K"},
       .dtypes = {DType::float16, DType::bfloat16, DType::float32},
       .swappedBy = "trans_a",
       .doc = "[K, M] with trans_a"},
      {.name = "b",
       .axes = {"K", "N"},
       .like = "a",
       .swappedBy = "trans_b",
       .doc = "[N, K] with trans_b"},
      {.name = "c", .output = true, .axes = {"M", "N"}, .like = "a", .doc = "accumulated in f32"},
  };
  spec.options = {
      {.name = "trans_a",
       .kind = OptionSpec::flag,
       .initial = "false",
       .doc = "a is stored transposed"},
      {.name = "trans_b",
       .kind = OptionSpec::flag,
       .initial = "false",
       .doc = "b is stored transposed"},
      {.name = "precision",
       .kind = OptionSpec::choice,
       .initial = "tf32",
       .choices = {"tf32", "exact"},
       .doc = "of f32 products: through tf32 on tensor cores, or exact"},
  };
  spec.config = {
      {"m", "rows of one program's tile"}, {"n", "columns of one program's tile"},
      {"k", "depth of one step"},          {"group", "tile rows that neighbouring programs share"},
      {"warps", "warps of one program"},   {"stages", "steps in flight"}};
  spec.typical = {{"M", 4096}, {"N", 4096}, {"K", 4096}};
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    MatmulOptions options{.transA = call.options.flag("trans_a"),
                          .transB = call.options.flag("trans_b"),
                          .tf32 = inputs[0].dtype == DType::float32 &&
                                  call.options.choice("precision") == "tf32"};
    return std::vector{matmulReference(inputs[0], inputs[1], options, arithmetic)};
  };
  return spec;
}
