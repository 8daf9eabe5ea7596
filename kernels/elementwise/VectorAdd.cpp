// vector_add: z = x + y, as torch.add of equal shapes. Arrays that are not dense are refused.
#include "kernels/Use.h"
#include "kernels/elementwise/Family.h"

using namespace sectile;

namespace {

struct VectorAddConfig {
  int size = 1024, warps = 4;
};
SECTILE_CONFIG(VectorAddConfig, size, warps)

template <class T>
Kernel vectorAdd{"vector_add", [](Ptr<const T> x, Ptr<const T> y, Ptr<T> z, Int n,
                                  const VectorAddConfig &config) {
                   auto i = program_id(0) * config.size + arange(0, config.size);
                   auto inside = i < n;
                   store(z + i, load(x + i, inside) + load(y + i, inside), inside);
                 }};

} // namespace

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
  spec.small = {{"...", 1000}};
  spec.reference = [](const Invocation &, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    return std::vector{vectorAddReference(inputs[0], inputs[1], arithmetic)};
  };
  spec.defaults = [](const Invocation &, const std::string &) {
    return Config{{"size", 1024}, {"warps", 4}};
  };
  spec.spaces = {{.axes = {{"size", {128, 256, 512, 1024, 2048, 4096}}, {"warps", {1, 2, 4, 8}}},
                  .where = [](const Invocation &, const std::string &target, const Config &config) {
                    const std::int64_t threads = config.at("warps") * warpSize(target);
                    return config.at("size") >= threads && config.at("size") <= 32 * threads;
                  }}};
  spec.apply = [](Use &use) {
    const std::int64_t n = elementCount(use.call.leading);
    const VectorAddConfig chosen{use.field("size"), use.field("warps")};
    forDType<float, half, bfloat16, double>(use.call.dtype("x"), [&]<class T>(T) {
      use(vectorAdd<T>, ceilDiv(n, chosen.size), use.elements<T>("x"), use.elements<T>("y"),
          use.elements<T>("z"), n, chosen);
    });
  };
  return spec;
}
