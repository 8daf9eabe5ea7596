// attention: o = softmax(scale q kT) v, never holding a whole row of scores.
#include "kernels/Families.h"
#include "kernels/InputError.h"

using namespace sectile;

KernelSpec sectile::attentionSpec() {
  KernelSpec spec;
  spec.name = "attention";
  spec.summary = "o = softmax(scale q k^T) v, with the logarithms of the sums";
  spec.arguments = {
      {.name = "q",
       .axes = {"B", "Hq", "Sq", "D"},
       .dtypes = {DType::float16, DType::bfloat16, DType::float32},
       .doc = "queries; D from 16 to 256"},
      {.name = "k",
       .axes = {"B", "Hkv", "Sk", "D"},
       .like = "q",
       .doc = "keys; Hq is a multiple of Hkv"},
      {.name = "v", .axes = {"B", "Hkv", "Sk", "D"}, .like = "q", .doc = "values"},
      {.name = "o",
       .output = true,
       .axes = {"B", "Hq", "Sq", "D"},
       .like = "q",
       .doc = "0 in rows that see no key"},
      {.name = "lse",
       .output = true,
       .axes = {"B", "Hq", "Sq"},
       .dtypes = {DType::float32},
       .doc = "natural logarithm of each row's sum of exponentials"},
  };
  spec.options = {
      {.name = "causal",
       .kind = OptionSpec::flag,
       .initial = "false",
       .doc = "query i sees key j where j <= i + Sk - Sq"},
      {.name = "scale",
       .kind = OptionSpec::number,
       .initial = "",
       .doc = "of the scores; 1/sqrt(D) if not given"},
  };
  spec.config = {{"m", "queries of one program"},
                 {"n", "keys of one step"},
                 {"warps", "warps of one program"},
                 {"stages", "steps in flight"}};
  spec.typical = {{"B", 4}, {"Hq", 16}, {"Hkv", 16}, {"Sq", 2048}, {"Sk", 2048}, {"D", 64}};
  spec.check = [](const Invocation &call) {
    const std::int64_t heads = call.extent("Hq"), kvHeads = call.extent("Hkv"),
                       d = call.extent("D");
    if (kvHeads == 0 ? heads != 0 : heads % kvHeads != 0)
      throw InputError("attention: Hq, the heads of q (" + std::to_string(heads) +
                       "), must be a multiple of Hkv, those of k and v (" +
                       std::to_string(kvHeads) + ")");
    if (d < 16 || d > 256)
      throw InputError("attention: D is " + std::to_string(d) + ", but must be from 16 to 256");
  };
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    AttentionOptions options{.causal = call.options.flag("causal")};
    if (call.options.given("scale"))
      options.scale = call.options.number("scale");
    auto result = attentionReference(inputs[0], inputs[1], inputs[2], options, arithmetic);
    return std::vector{result.o, result.lse};
  };
  return spec;
}
